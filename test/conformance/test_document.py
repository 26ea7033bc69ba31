"""docs/operators.md has a row for every operator of the default domain up to operator set 23."""

from __future__ import annotations

import re

import generated
import onnx


def test_every_operator_has_a_row() -> None:
    text = (generated.SOURCE / "docs/operators.md").read_text()
    section = text.split("## Default domain")[1].split("\n## ")[0]
    rows = set(re.findall(r"^\| (\w+) \|", section, re.MULTILINE))
    known = {
        schema.name
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.since_version <= 23
    }
    assert not known - rows
