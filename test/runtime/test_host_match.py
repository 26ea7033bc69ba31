"""Each host of a launch gets the ranks of its planned node, in whatever order the launcher numbers hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from heterplan_runtime.errors import RuntimeFault
from heterplan_runtime.host_match import Process, planned_nodes, planned_ranks
from heterplan_runtime.launched import expand_hosts, slurm_environment, task_counts
from heterplan_runtime.program import PlannedDevice
from packages import linear
from ranks import run_ranks

V100, T4 = "Tesla V100-SXM2-16GB", "Tesla T4"


def devices(text: str) -> list[PlannedDevice]:
    """ "a:t4,v100 b:t4" is two devices of node a and one of node b."""
    return [
        PlannedDevice(kind, node, 0)
        for node, kinds in (item.split(":") for item in text.split())
        for kind in kinds.split(",")
    ]


def host(name: str, count: int, **facts: object) -> list[Process]:
    return [Process(name, name, local, **facts) for local in range(count)]  # type: ignore[arg-type]


def test_ranks_of_a_node_are_one_run():
    assert [(node.name, node.first, node.types) for node in planned_nodes(devices("a:t4,v100 b:t4"))] == [
        ("a", 0, ("t4", "v100")), ("b", 2, ("t4",)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "processes", "ranks"),
    [
        # Hosts that have the names of nodes.
        ("b:core-a a:core-b", host("a", 1) + host("b.local", 1), [1, 0]),
        # Hosts that were started as nodes.
        ("x:p y:q", host("h1", 1, node="y") + host("h2", 1, node="x"), [1, 0]),
        # Device types that the launcher asked for.
        ("x:p,p y:q,q", host("h1", 2, types=("q",)) + host("h2", 2, types=("p",)), [2, 3, 0, 1]),
        # GPUs by their names; the CPU of a host with GPUs may be a type of the plan, too.
        ("x:v100 y:t4", host("h1", 1, gpus=(T4,)) + host("h2", 1, gpus=(V100,)), [1, 0]),
        ("x:v100 y:xeon-6271c", host("h1", 1, cpu="Xeon 6271C") + host("h2", 1, gpus=(V100,), cpu="Xeon 6271C"),
         [1, 0]),
        # Nodes with two device types, and nodes that are alike.
        ("x:t4,v100 y:v100,v100", host("h1", 2, gpus=(V100, V100)) + host("h2", 2, gpus=(T4, V100)), [2, 3, 0, 1]),
        ("x:t4,v100 y:t4,v100", host("h1", 2, gpus=(T4, V100)) + host("h2", 2, gpus=(T4, V100)), [0, 1, 2, 3]),
        # By numbers of ranks.
        ("x:p,p y:q", host("h1", 1) + host("h2", 2), [2, 0, 1]),
        # One type: spread over other hosts.
        ("x:p,p,p y:p", host("h1", 2) + host("h2", 2), [0, 1, 2, 3]),
        ("x:p,p,p y:p", host("h1", 1) + host("h2", 3), [3, 0, 1, 2]),
        # One host has all.
        ("x:p y:q", host("h", 2), [0, 1]),
    ],
)  # fmt: skip
def test_hosts_are_matched(plan: str, processes: list[Process], ranks: list[int]):
    assert planned_ranks(processes, devices(plan)) == ranks


def test_ranks_of_a_host_need_not_be_consecutive():
    """Slurm deals tasks out in turn."""
    processes = [Process(name, name, local, types=(kind,)) for local in (0, 1) for name, kind in (("h1", "q"), ("h2", "p"))]
    assert planned_ranks(processes, devices("x:p,p y:q,q")) == [2, 0, 3, 1]


@pytest.mark.parametrize(
    ("plan", "processes", "message"),
    [
        ("x:p y:q", host("h1", 1) + host("h2", 1), r"host h1 cannot be told .* --node NAME: 'x' with 1 rank \(1 on p\)"),
        ("x:p y:q", host("h1", 1, node="z") + host("h2", 1), "started as node 'z'; the plan has 'x'"),
        ("x:p y:q", host("h1", 1, node="x") + host("h2", 1, node="x"), "two hosts are started as node 'x'"),
        ("x:p,p y:q,q", host("h1", 1) + host("h2", 3), "start the ranks of each node on a host of their own"),
        ("x:p,p y:q,q", host("h1", 2, types=("r",)) + host("h2", 2), "host h1 runs 2 ranks on devices of other types"),
        ("x:v100 y:t4", host("h1", 1, node="x", gpus=(T4,)) + host("h2", 1), "h1 has Tesla T4; node 'x' of the plan needs v100"),
        ("x:p,p y:q", host("h1", 1, node="x") + host("h2", 2), "host h1 runs 1 ranks; node 'x' of the plan has 2"),
    ],
)  # fmt: skip
def test_hosts_that_do_not_match_are_refused(plan: str, processes: list[Process], message: str):
    with pytest.raises(RuntimeFault, match=message):
        planned_ranks(processes, devices(plan))


def test_host_lists_of_slurm():
    assert expand_hosts("gpu[1-3,07],cpu,x[1-2]y[8-9]") == [
        "gpu1", "gpu2", "gpu3", "gpu07", "cpu", "x1y8", "x1y9", "x2y8", "x2y9",
    ]  # fmt: skip
    assert expand_hosts("node[08-11]") == ["node08", "node09", "node10", "node11"]
    assert expand_hosts("") == []
    assert task_counts("2(x2),1") == [2, 2, 1]


def test_tasks_of_slurm_are_ranks():
    slurm = {
        "SLURM_PROCID": "4", "SLURM_STEP_NUM_TASKS": "5", "SLURM_LOCALID": "0", "SLURM_NODEID": "2", "SLURM_JOB_ID": "17",
        "SLURM_STEP_ID": "3", "SLURM_STEP_NODELIST": "n[7-9]", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    }  # fmt: skip
    assert slurm_environment(slurm) == {
        "RANK": "4", "WORLD_SIZE": "5", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "n7",
        "MASTER_PORT": "20020",
    }  # fmt: skip
    assert slurm_environment({**slurm, "MASTER_ADDR": "here"})["MASTER_ADDR"] == "here"


def plan_on(nodes: str, folder: Path) -> Path:
    """A plan of uneven shares on devices of `nodes`. Each rank notes the node that it was started as."""
    planned = devices(nodes)
    plan = linear([index + 1 for index in range(len(planned))], 1).write(folder / "plan")
    for path, device in zip(sorted((plan / "ranks").iterdir()), planned, strict=True):
        text = json.loads(path.read_text())
        text["device"] = {"type": device.type, "node": device.node, "index": device.index}
        path.write_text(json.dumps(text))
    with (plan / "model.py").open("a") as model:
        model.write("import os, pathlib\n"
                    f"pathlib.Path({str(folder)!r}, 'rank' + os.environ['RANK']).write_text(os.environ['STARTED'])\n")  # fmt: skip
    return plan


@pytest.mark.parametrize("way", ["torchrun", "slurm"])
def test_reversed_hosts_train_as_planned(way: str, tmp_path: Path):
    """Two nodes with two device types each; the launcher numbers the hosts the other way round."""
    plan = plan_on("one:p,q two:p,r", tmp_path)
    places = [("two", 0), ("two", 1), ("one", 0), ("one", 1)]
    if way == "torchrun":
        variables = [
            {"GROUP_RANK": str(launched // 2), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": "2", "STARTED": node,
             "HETERPLAN_NODE": node}
            for launched, (node, local) in enumerate(places)
        ]  # fmt: skip
    else:
        variables = [
            {"LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": "2", "STARTED": node, "SLURMD_NODENAME": node}
            for node, local in places
        ]
    outcomes = run_ranks(
        4, tmp_path / "logs", [str(plan), "--loss", "mse", "--check", "--steps", "2"], variables=variables
    )
    assert [outcome.status for outcome in outcomes] == [0] * 4, outcomes
    started = [(tmp_path / f"rank{rank}").read_text() for rank in range(4)]
    assert started == ["one", "one", "two", "two"]
    assert "check: 2 losses equal" in "".join(outcome.out for outcome in outcomes)


def test_hosts_that_cannot_be_told_apart_are_refused(tmp_path: Path):
    plan = plan_on("one:p two:q", tmp_path)
    variables = [
        {"GROUP_RANK": str(rank), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "STARTED": "?"} for rank in range(2)
    ]
    outcomes = run_ranks(2, tmp_path / "logs", [str(plan), "--loss", "mse"], variables=variables, stop_on_failure=False)
    assert [outcome.status for outcome in outcomes] == [1, 1]
    assert "start each host with --node NAME: 'one' with 1 rank (1 on p), 'two'" in outcomes[0].err
    assert "Traceback" not in "".join(outcome.err for outcome in outcomes)
