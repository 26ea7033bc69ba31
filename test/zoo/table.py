"""The results of the zoo as a document: shares, a table, and the reasons for what is not equal."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from pathlib import Path

from entry import WAYS

MARKS = {"equal": "=", "refused": "refused", "wrong": "WRONG", "no-export": "–"}
Results = dict[str, dict[str, dict]]

HEAD = """# The zoo: models exported as people export them

`make zoo` builds the models of `test/zoo` from configurations with random weights, exports each by both of PyTorch's exporters with a symbolic and with a fixed
batch of one, imports the files with default options and writes them in one and in two stages. `=`: the outputs at batches of 1, 2 and 3 are those of the module,
and so are the gradients of all that was trainable (of large models, of a sample; not where the exporter folded batch normalisation). `refused`: the import says why, and which line exports the model so that it can be planned. `–`: the exporter
fails, or its file computes something else than the module by onnxruntime; nothing: not run. Nothing may be WRONG. `*`: what is trained differs, for the reasons below,
which are the allow-list.

"""


def gist(reason: str) -> str:
    """A diagnostic without its place, code and notes."""
    text = re.sub(r"^.*?\[HP\d+\] ", "", reason.split("\n")[0])
    text = re.sub(r"'[^']{40,}'", "'...'", text)
    return re.sub(r"\s+", " ", text).replace("|", "/")[:220]


def shares(results: Results) -> str:
    lines = ["| way | models that export | equal | refused | wrong |", "| --- | --- | --- | --- | --- |"]
    for way in WAYS:
        states = Counter(verdicts[way]["state"] for verdicts in results.values() if way in verdicts)
        all_ = sum(states.values()) - states["no-export"]
        percent = f" ({100 * states['equal'] / all_:.0f} %)" if all_ else ""
        lines.append(
            f"| {way} | {all_} | {states['equal']}{percent} | {states['refused']} |"
            f" {states['wrong']} |"
        )
    return "\n".join(lines)


def row(name: str, verdicts: dict[str, dict]) -> str:
    marks = []
    for way in WAYS:
        if way not in verdicts:
            marks.append("")
            continue
        verdict = verdicts[way]
        notes = verdict.get("faults", []) + verdict.get("remarks", [])
        marks.append(MARKS[verdict["state"]] + (" *" if notes else ""))
    layers = max((verdict.get("layers", 0) for verdict in verdicts.values()), default=0)
    return f"| {name} | {layers or ''} | " + " | ".join(marks) + " |"


def reasons(results: Results) -> list[str]:
    lines = []
    for name, verdicts in results.items():
        for way, verdict in verdicts.items():
            if verdict["state"] != "equal":
                lines.append(f"- {name}, {way}: {verdict['state']}: {gist(verdict['reason'])}")
            notes = verdict.get("faults", []) + verdict.get("remarks", [])
            if notes:
                more = f", and {len(notes) - 1} more like it" if len(notes) > 1 else ""
                lines.append(f"- {name}, {way}: {gist(notes[0])}{more}")
    return lines


def write_table(results: Results, path: Path) -> None:
    header = "| model | layers | " + " | ".join(WAYS) + " |\n| --- | --- |" + " --- |" * len(WAYS)
    rows = "\n".join(row(name, verdicts) for name, verdicts in results.items())
    text = f"{HEAD}Run on {date.today()}.\n\n{shares(results)}\n\n{header}\n{rows}\n\n## Reasons and notes\n\n"
    path.write_text(text + "\n".join(reasons(results)) + "\n")
