"""The best shares of a plan's stages of several device types, by a list of all shares that `evaluate` prices one by one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to divide `total` samples among `parts` devices, each with one at least."""
    if parts == 1:
        yield (total,)
        return
    for first in range(1, total - parts + 2):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def stated(plan: dict[str, Any]) -> dict[str, Any]:
    """`plan` as a placement with the shares of a full micro-batch."""
    stages = []
    for stage in plan["stages"]:
        shares: dict[str, list[int]] = {}
        for replica in stage["replicas"]:
            shares.setdefault(replica["devices"][0]["type"], []).append(-(-replica["share"] // plan["microBatches"]))
        stages.append({
            "layers": [stage["layers"][0], stage["layers"][-1]],
            "devices": {kind: len(each) for kind, each in shares.items()},
            "shares": [share for each in shares.values() for share in each],
        })  # fmt: skip
    return {"microBatches": plan["microBatches"], "stages": stages}


class Shares:
    """Prices placements on one model and cluster."""

    def __init__(self, binary: Path, model: Path, pool: Path, batch: int, folder: Path) -> None:
        self._file = folder / "placement.yaml"
        self._command = [
            str(binary), "evaluate", str(self._file), "--model", str(model), "--cluster", str(pool), "--batch", str(batch),
            "--strategy", "greedy", "--json",
        ]  # fmt: skip

    def seconds(self, placement: dict[str, Any]) -> float:
        self._file.write_text(yaml.safe_dump(placement, sort_keys=False))
        done = subprocess.run(self._command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["iterationSeconds"]

    def best(self, placement: dict[str, Any]) -> float:
        """Least seconds of an iteration over the shares of one stage at a time, until none is better."""
        least, is_better = self.seconds(placement), True
        while is_better:
            is_better = False
            for stage in placement["stages"]:
                kept = stage["shares"]
                for other in list(compositions(sum(kept), len(kept))) if len(stage["devices"]) > 1 else []:
                    stage["shares"] = list(other)
                    seconds = self.seconds(placement)
                    if seconds < least * (1 - 1e-9):
                        least, kept, is_better = seconds, list(other), True
                stage["shares"] = kept
        return least
