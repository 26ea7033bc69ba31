"""Converts the output of the program into diagnostics, exceptions and warnings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_LINE = re.compile(
    r"^(?:(?P<place>.*?): )?(?P<severity>error|warning|note): (?:\[(?P<code>HP\d{4})\] )?(?P<text>.*)$"
)


@dataclass(frozen=True)
class Diagnostic:
    """One message of the program, as it stands on stderr.

    `place` is `file:line:column`, or the file and what is meant in it; empty where there is none.
    """

    severity: str  # error, warning or note
    code: str  # HPnnnn; empty: none
    place: str
    text: str

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        code = f"[{self.code}] " if self.code else ""
        return f"{place}{self.severity}: {code}{self.text}"


def parse_diagnostics(text: str) -> tuple[Diagnostic, ...]:
    """The diagnostics in what the program wrote to stderr; other lines belong to the one before."""
    found: list[Diagnostic] = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            found.append(
                Diagnostic(match["severity"], match["code"] or "", match["place"] or "", match["text"])
            )
        elif found and line.strip():
            last = found[-1]
            found[-1] = Diagnostic(last.severity, last.code, last.place, f"{last.text}\n{line}")
    return tuple(found)


class HeterplanError(Exception):
    """The program refused what it was given, or failed. The message is what it wrote to stderr.

    `code` is that of the first error (`HP1212`; empty where there is none), `status` the exit status.
    """

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status
        self.diagnostics = parse_diagnostics(text)

    @property
    def code(self) -> str:
        return next((each.code for each in self.diagnostics if each.severity == "error"), "")


class Infeasible(HeterplanError):
    """No plan meets the constraints: an answer, with the conflict and the changes that would help.

    `conflict` lists the constraints, `relaxations` the smallest changes that lead to a plan, with the
    fields of `heterplan compile --json`; `proven` says whether it is certain that there is no plan.
    """

    def __init__(self, answer: dict[str, Any]) -> None:
        self.proven: bool = answer.get("proven", False)
        self.conflict: list[str] = answer.get("conflict", [])
        self.relaxations: list[dict[str, Any]] = answer.get("relaxations", [])
        super().__init__(self._text(), status=2)

    def _text(self) -> str:
        certain = "no plan meets" if self.proven else "no plan was found that meets"
        lines = [f"{certain} the constraints: {', '.join(self.conflict)}"]
        for each in self.relaxations:
            if each.get("helps") and each.get("option"):
                lines.append(f"  {each.get('subject')}: {each.get('needed')} is enough ({each['option']})")
        return "\n".join(lines)


class CheckFailed(HeterplanError):
    """A check of `verify` or `run --check` failed; the message is the program's."""


class HeterplanWarning(UserWarning):
    """A warning of the program: the input is used all the same."""
