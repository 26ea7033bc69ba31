"""The environment that a launcher (torchrun, Slurm, launch.sh) gives a rank, and whether it fits the plan."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from .errors import RuntimeFault

REQUIRED = ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
NUMBERS = ("RANK", "WORLD_SIZE", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
HOW = "start the ranks with torchrun or DIR/launch.sh, or unset RANK to start all ranks on this machine"
SLURM_PORTS = range(20000, 30000)  # of rank 0, by the number of the job


def take_environment() -> bool:
    """Whether a launcher started this process as one rank. A task of Slurm gets the variables of torchrun."""
    if "RANK" not in os.environ and is_slurm_task():
        os.environ.update(slurm_environment(dict(os.environ)))
    return "RANK" in os.environ


def is_slurm_task() -> bool:
    """Whether `srun` started this process and others. A batch script and a shell of `srun --pty` are alone."""
    return _number(os.environ.get("SLURM_STEP_NUM_TASKS", "")) > 1


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def slurm_environment(slurm: dict[str, str]) -> dict[str, str]:
    """The variables of torchrun, from those of `srun`. A heterogeneous step numbers the tasks of all its
    components. Variables of torchrun that are set already stay."""
    tasks = task_counts(slurm.get("SLURM_STEP_TASKS_PER_NODE", ""))
    node = _number(slurm.get("SLURM_NODEID", ""))
    step = _number(slurm.get("SLURM_JOB_ID", "")) + _number(slurm.get("SLURM_STEP_ID", ""))
    found = {
        "RANK": slurm.get("SLURM_PROCID", ""),
        "WORLD_SIZE": slurm.get("SLURM_STEP_NUM_TASKS", ""),
        "LOCAL_RANK": slurm.get("SLURM_LOCALID", "0"),
        "LOCAL_WORLD_SIZE": str(tasks[node]) if node < len(tasks) else "1",
        "MASTER_ADDR": next(iter(expand_hosts(slurm.get("SLURM_STEP_NODELIST", ""))), ""),
        "MASTER_PORT": str(SLURM_PORTS[step % len(SLURM_PORTS)]),
    }
    return {name: slurm.get(name, value) for name, value in found.items()}


def expand_hosts(text: str) -> list[str]:
    """The hosts of a Slurm host list: "gpu[1-2,07],cpu" names gpu1, gpu2, gpu07 and cpu."""
    return [host for item in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text) for host in _expand(item)]


def _expand(item: str) -> Iterator[str]:
    match = re.match(r"([^\[]*)\[([^\]]*)\](.*)", item)
    if not match:
        yield item
        return
    before, ranges, after = match.groups()
    for each in ranges.split(","):
        first, _, last = each.partition("-")
        for number in range(int(first), int(last or first) + 1):
            for rest in _expand(after):
                yield f"{before}{number:0{len(first)}d}{rest}"


def task_counts(text: str) -> list[int]:
    """The tasks of each node in Slurm's form: "4(x2),1" is 4, 4 and 1."""
    counts: list[int] = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        counts += [int(count)] * int(times or 1)
    return counts


def check_environment() -> None:
    """Raises RuntimeFault if a variable is missing or is not a number; RANK is set."""
    missing = [name for name in REQUIRED if not os.environ.get(name)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise RuntimeFault(f"RANK is set, but {', '.join(missing)} {verb} not; {HOW}")
    for name in NUMBERS:
        text = os.environ.get(name, "0")
        if not (text.isascii() and text.isdigit()):
            raise RuntimeFault(f"{name} is '{text}'; expected a number")


def environment_rank() -> int:
    check_environment()
    return int(os.environ["RANK"])


def host_name() -> str:
    """The name of this host for the user: the one given to launch.sh, the name of the node of Slurm, or its own."""
    index = os.environ.get("HETERPLAN_HOST_INDEX", "")
    hosts = [host for host, _ in host_counts(os.environ.get("HETERPLAN_HOSTS", ""))]
    if index and int(index) < len(hosts):
        return hosts[int(index)]
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def host_counts(text: str) -> Iterator[tuple[str, int]]:
    """The hosts of a launch and their numbers of ranks: "a=2,b=1"."""
    for item in text.split(","):
        host, _, count = item.rpartition("=")
        if host:
            yield host, int(count)


def host_ranks() -> range:
    """The ranks of this host, which are consecutive in the plan. Only this rank if the launcher does not tell
    how many there are."""
    rank = environment_rank()
    if "LOCAL_WORLD_SIZE" not in os.environ:
        return range(rank, rank + 1)
    first = max(0, rank - int(os.environ.get("LOCAL_RANK", "0")))
    return range(first, min(first + int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])))


def check_launch(directory: Path) -> None:
    """Raises RuntimeFault if the launcher started another number of ranks than the plan has."""
    from .program import read_world_size

    rank, launched = environment_rank(), int(os.environ["WORLD_SIZE"])
    planned = read_world_size(directory)
    if launched != planned or rank >= launched:
        how = "the tasks of srun (--ntasks)" if "SLURM_PROCID" in os.environ else "--nproc-per-node of all hosts"
        raise RuntimeFault(
            f"launched as rank {rank} of {launched}; the plan is for {planned} ranks: the values of "
            f"{how} must add up to {planned}"
        )
