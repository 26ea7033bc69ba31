"""Failures of exporters, in one line each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .errors import HeterplanError

if TYPE_CHECKING:
    from torch import nn


# Failures of exporters that have a simple reason, by a part of their text.
_KNOWN_FAILURES = {
    r"DynamicCache|past_key_values": "forward() returns a cache of keys and values; set config.use_cache = False",
    r"data.dependent|DataDependent|Could not guard|unbacked": "forward() decides by the values of a tensor",
    r"Constraints violated|specialized|not all values of (\w+)": "forward() computes with the size of an axis that is "
    "symbolic as if it were a constant",
    r"operator '?(aten::\w+)'? to ONNX|No ONNX function found for .*?(aten\.\w+)|"
    r"No decompositions registered for .*?(aten\.\w+)": "ONNX has no operator for",
}


def _reason(error: BaseException) -> str:
    """The cause of the failure of an exporter in one line."""
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    for each in reversed(causes):
        for pattern, reason in _KNOWN_FAILURES.items():
            if found := re.search(pattern, str(each)):
                operators = [group for group in found.groups() if group and "aten" in group]
                return f"{reason} {operators[0]}" if operators else reason
    wrapped = str(error).startswith("the exporter failed with")  # says what kind of error the cause is
    lines = str(error if wrapped else causes[-1]).strip().splitlines() or [type(causes[-1]).__name__]
    return lines[0].strip()[:300]


def refusal(module: nn.Module, failures: Sequence[Exception]) -> HeterplanError:
    reasons = list(dict.fromkeys(_reason(each) for each in failures))
    return HeterplanError(
        f"{type(module).__name__} cannot be exported: {'; or '.join(reasons[:2])}; export a module whose forward() takes "
        "and returns tensors alone and does not look at their values"
    )
