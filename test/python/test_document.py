"""The Python of docs/python.md runs, block after block."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import SOURCE

import heterplan


def test_code_of_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (SOURCE / "docs/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) >= 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert "did you mean '--batch'" in capfd.readouterr().out


def test_document_names_what_the_package_has() -> None:
    text = (SOURCE / "docs/python.md").read_text(encoding="utf-8")
    for name in heterplan.__all__:
        if name not in ("Check", "Device", "Diagnostic", "Replica", "Stage"):  # what attributes hold
            assert name in text, name
