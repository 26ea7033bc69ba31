"""scripts/measured-plans.py: plans that others have measured against what `evaluate` predicts of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
DATA = SOURCE / "test/data/published"
BINARY = Path(os.environ.get("HETERPLAN_BINARY", SOURCE / "build/bin/heterplan"))


def script(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SOURCE / "scripts" / name, *arguments]
    environment = {**os.environ, "HETERPLAN_BINARY": str(BINARY)}
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)


def compare(table: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    prefix = folder / "made-up"
    rows = script("profile-rows.py", DATA / "rows.csv", "--device-type", "v100", "--layers", DATA / "layers.csv",
                  "-o", prefix)  # fmt: skip
    assert rows.returncode == 0, rows.stderr
    return script("measured-plans.py", table, "--model", f"{prefix}.layers.json", "--cluster",
                  DATA / "cluster.yaml", "--profile", f"{prefix}.profile.json", "--batch", 128)  # fmt: skip


@pytest.mark.skipif(not BINARY.exists(), reason="heterplan is not built")
def test_errors_order_and_regret(tmp_path: Path) -> None:
    """The plan that is predicted to be the faster one is the slower one, by a sample of another batch too."""
    for name in ("replicas.yaml", "pipeline.yaml"):
        (tmp_path / name).write_text((DATA / name).read_text())
    table = tmp_path / "measured.csv"
    table.write_text("plan,seconds,batch,who\nreplicas.yaml,0.5,,a\npipeline.yaml,0.25,256,b\n")
    found = compare(table, tmp_path)
    assert found.returncode == 0, found.stderr
    rows = [line for line in found.stdout.splitlines() if line.startswith("| ") and "yaml" in line]
    assert len(rows) == 2 and "| 0.500 | -" in rows[0] and "| 0.250 | +" in rows[1]
    assert "Spearman -1.00, regret 300.0%" in found.stdout  # 0.5 / 128 against 0.25 / 256


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("plan,seconds\n", "there are no plans"),
        ("plan\nx.yaml\n", ":2: there is no 'seconds'"),
        ("plan,seconds\nx.yaml,soon\n", ":2: seconds is 'soon'"),
        ("plan,seconds\nx.yaml,0\n", ":2: seconds are 0"),
        ("plan,seconds,gigabytes\nx.yaml,1,-1\n", ":2: gigabytes is '-1'"),
        ("plan,seconds\nx.yaml,1\n", "says:"),
    ],
)
def test_tables_that_are_wrong(text: str, complaint: str, tmp_path: Path) -> None:
    table = tmp_path / "measured.csv"
    table.write_text(text)
    found = script("measured-plans.py", table, "--model", "m", "--cluster", "c", "--batch", 8)
    assert found.returncode == 1 and complaint in found.stderr
    assert not found.stdout
