"""Whether the memory that a plan predicts is there, before any rank starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from .errors import RuntimeFault
from .program import PlanSummary, RankProgram

_MEMORY = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60


def rank_bytes(program: RankProgram, plan: PlanSummary) -> float:
    """Predicted of one rank, of which one process runs all stages; 0 where the plan does not say."""
    known = min(len(plan.stage_bytes), len(plan.stage_overheads))
    stages = [part.stage for part in program.parts if part.stage < known]
    overheads = [plan.stage_overheads[stage] for stage in stages]
    return sum(plan.stage_bytes[stage] for stage in stages) - sum(overheads) + max(overheads, default=0.0)


def free_bytes() -> float | None:
    """Free memory of this machine, within the limit of its control group; None if the system does
    not tell."""
    try:
        lines = _MEMORY.read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
    except (OSError, ValueError, StopIteration):
        return None
    return min(free, _group_limit())


def _group_limit() -> int:
    """Pages of files can be given back."""
    try:
        limit = (_GROUP / "memory.max").read_text(encoding="ascii").strip()
        if limit == "max":
            return _UNLIMITED
        used = int((_GROUP / "memory.current").read_text(encoding="ascii"))
        facts = dict(
            line.split() for line in (_GROUP / "memory.stat").read_text(encoding="ascii").splitlines()
        )
        return max(0, int(limit) - used + int(facts.get("file", 0)))
    except (OSError, ValueError):
        return _UNLIMITED


def check_host_memory(needs: Sequence[float], free: float | None) -> None:
    """`needs`: of the ranks that share the memory of this machine."""
    total = sum(needs)
    if free is None or total <= free:
        return
    raise RuntimeFault(
        f"the plan needs {_text(total)} of memory on this machine ({_ranks(needs)}), of which "
        f"{_text(free)} are free; plan for less memory, give --hosts, or --ignore-memory to start "
        "all the same"
    )


def check_device_memory(rank: int, need: float, free: float) -> None:
    """Checks the memory of a device that belongs to one rank."""
    if need > free:
        raise RuntimeFault(
            f"the plan needs {_text(need)} on the device of rank {rank}, of which {_text(free)} are "
            "free; --ignore-memory starts all the same"
        )


def _ranks(needs: Iterable[float]) -> str:
    needs = list(needs)
    noun = "rank" if len(needs) == 1 else "ranks"
    return f"{len(needs)} {noun}, the largest {_text(max(needs))}"


def _text(count: float) -> str:
    return f"{count / (1 << 30):.2f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"
