"""Problems without a plan: the binary says which constraints conflict, and each way out that it names works.

Every row is a problem, the conflict that must be told and the changes that must be offered. The
test then proves each claim with the binary itself. Without any one of the conflicting constraints
there is a plan, so none is blamed without cause; each suggested change gives a plan too.
"""

from __future__ import annotations

import copy
import re
import subprocess
from dataclasses import dataclass

import pytest

from conftest import BINARY, bundled, pool

HETERPS = ("--iteration-model", "steady-state")


@dataclass
class Case:
    name: str
    model: str
    cluster: dict
    options: list[tuple[str, str]]
    conflict: list[str]  # patterns, one for each constraint that must be named
    offers: list[str]  # patterns of subjects that must be offered


def floor(value: float) -> tuple[str, str]:
    return ("--min-throughput", str(value))


def budget(value: float) -> tuple[str, str]:
    return ("--max-cost-per-hour", str(value))


def pin(layer: str, kind: str) -> tuple[str, str]:
    return ("--pin", f"{layer}={kind}")


def colocate(*layers: str) -> tuple[str, str]:
    return ("--colocate", ",".join(layers))


def separate(*layers: str) -> tuple[str, str]:
    return ("--separate", ",".join(layers))


FLOOR, BUDGET, MEMORY = "^throughput of at least", "dollars/hour$", "^the memory of the devices$"
CASES = [
    Case("floor", "resnet50", bundled("mixed-small"), [floor(1e7)], [FLOOR], ["best throughput"]),
    Case("floor-heterps", "resnet50", bundled("mixed-small"), [floor(1e7), HETERPS], [FLOOR],
         ["best throughput"]),
    Case("budget", "resnet50", bundled("mixed-small"), [budget(0.1)], [BUDGET], ["least budget"]),
    Case("budget-heterps", "mobilenet_v2", bundled("mixed-small"), [budget(0.1), HETERPS], [BUDGET],
         ["least budget"]),
    Case("floor-and-budget", "mobilenet_v2", bundled("mixed-small"), [floor(6000), budget(2)],
         [BUDGET, FLOOR], ["least budget", "best throughput"]),
    Case("floor-and-budget-heterps", "resnet50", bundled("mixed-small"),
         [floor(2000), budget(2), HETERPS], [BUDGET, FLOOR], ["least budget", "best throughput"]),
    Case("counts-and-floor", "tower", pool(fast=1, slow=1), [floor(150)], [FLOOR],
         ["best throughput", "devices of type fast"]),
    Case("counts-and-floor-heterps", "tower", pool(fast=1, slow=1), [floor(150), HETERPS], [FLOOR],
         ["best throughput", "devices of type fast"]),
    Case("memory", "tower", pool(fast_memory="500MB", slow_memory="600MB"), [], [MEMORY],
         ["memory of fast", "memory of slow"]),
    Case("memory-heterps", "tower", pool(fast_memory="500MB", slow_memory="600MB"), [HETERPS],
         [MEMORY], ["memory of fast", "memory of slow"]),
    Case("memory-of-a-large-model", "dlrm-terabyte", bundled("local-cpu"), [("--batch", "64")],
         [MEMORY], ["memory of core"]),
    Case("pin-to-a-type-without-devices", "tower", pool(), [pin("first", "gone")],
         ["^layer 'first' on gone$"], ["layer 'first'"]),
    Case("pin-to-a-type-without-devices-heterps", "tower", pool(), [pin("first", "gone"), HETERPS],
         ["^layer 'first' on gone$"], ["layer 'first'"]),
    Case("pin-and-memory", "tower", pool(fast_memory="700MB"), [pin("embed", "fast")],
         [MEMORY, "^layer 'embed' on fast$"], ["memory of fast", "layer 'embed'"]),
    Case("pin-and-floor", "tower", pool(), [pin("second", "slow"), floor(200)],
         ["^layer 'second' on slow$", FLOOR], ["layer 'second'", "best throughput"]),
    Case("pin-and-floor-heterps", "tower", pool(), [pin("second", "slow"), floor(200), HETERPS],
         ["^layer 'second' on slow$", FLOOR], ["layer 'second'", "best throughput"]),
    Case("pin-and-budget", "tower", pool(), [pin("head", "fast"), budget(2)],
         ["^layer 'head' on fast$", BUDGET], ["layer 'head'", "least budget"]),
    Case("pin-budget-and-floor", "tower", pool(slow=8), [pin("head", "slow"), budget(6), floor(165)],
         ["^layer 'head' on slow$", BUDGET, FLOOR],
         ["layer 'head'", "least budget", "best throughput"]),
    Case("two-pins-and-a-colocation", "tower", pool(),
         [pin("embed", "slow"), pin("head", "fast"), colocate("embed", "head")],
         ["^layer 'embed' on slow$", "^layer 'head' on fast$", "in one stage$"],
         ["layer 'embed'", "layer 'head'", "layers 'embed', 'head'"]),
    Case("colocation-and-separation", "tower", pool(),
         [colocate("first", "third"), separate("second", "third")],
         ["in one stage$", "in a stage each$"],
         ["layers 'first', 'third'", "layers 'second', 'third'"]),
    Case("colocation-and-separation-heterps", "tower", pool(),
         [colocate("first", "third"), separate("second", "third"), HETERPS],
         ["in one stage$", "in a stage each$"],
         ["layers 'first', 'third'", "layers 'second', 'third'"]),
    Case("colocation-and-memory", "tower", pool(fast_memory="1GB", slow_memory="1GB"),
         [colocate("embed", "third")], [MEMORY, "in one stage$"],
         ["memory of fast", "memory of slow", "layers 'embed', 'third'"]),
    Case("colocation-and-pin-and-memory", "tower", pool(fast_memory="1GB"),
         [colocate("embed", "third"), pin("second", "fast")],
         [MEMORY, "^layer 'second' on fast$", "in one stage$"],
         ["memory of fast", "layer 'second'", "layers 'embed', 'third'"]),
    Case("separation-and-counts", "tower", pool(fast=1, slow=1),
         [separate("embed", "second", "head")], ["in a stage each$"],
         ["layers 'embed', 'second', 'head'", "devices of type fast"]),
    Case("separation-and-budget", "tower", pool(), [separate("first", "second"), budget(1.5)],
         ["in a stage each$", BUDGET], ["layers 'first', 'second'", "least budget"]),
    Case("separation-and-schedule", "tower", pool(),
         [separate("first", "second"), ("--schedule", "data-parallel")],
         ["in a stage each$", "^data parallelism"], ["layers 'first', 'second'", "schedule"]),
    Case("pipeline-and-counts", "tower", pool(fast=1, slow=0), [("--schedule", "pipeline")],
         ["^a pipeline of at least two stages$"], ["schedule", "devices of type fast"]),
    Case("micro-batches-and-memory", "tower", pool(fast=0, slow=1, slow_memory="1900MB"),
         [("--micro-batches", "1"), ("--batch", "64")], [MEMORY, "^1 micro-batch$"],
         ["memory of slow", "micro-batches"]),
    Case("memory-and-floor", "tower", pool(fast_memory="500MB", slow=1), [floor(250)],
         [MEMORY, FLOOR], ["memory of fast", "best throughput"]),
    Case("memory-of-all-types", "tower", pool(fast=2, fast_memory="100MB", slow_memory="100MB"),
         [pin("embed", "fast"), pin("second", "slow")], [MEMORY], ["memory of all types"]),
]


def without_constraint(job, constraint: str):
    """The same job without what `constraint` describes."""
    job = copy.deepcopy(job)
    patterns = {
        r"dollars/hour$": "--max-cost-per-hour",
        r"^throughput of": "--min-throughput",
        r"micro-batch(es)?$": "--micro-batches",
        r"^(a pipeline|data parallelism)": "--schedule",
    }
    for pattern, option in patterns.items():
        if re.search(pattern, constraint):
            job.options = [each for each in job.options if each[0] != option]
            return job
    if match := re.fullmatch(r"layer '(.*)' on (.*)", constraint):
        job.options.remove(pin(*match.groups()))
    elif match := re.fullmatch(r"layers '(.*)' in (one stage|a stage each)", constraint):
        make = colocate if match[2] == "one stage" else separate
        job.options.remove(make(*match[1].split("', '")))
    else:
        assert constraint == "the memory of the devices"
        for kind in job.cluster["device_types"].values():
            kind["memory"] = "1000TB"
    return job


def with_devices(cluster: dict, kind: str, count: int) -> None:
    now = sum(node.get("count", 1) * node["devices"].get(kind, 0) for node in cluster["nodes"])
    node = next(node for node in cluster["nodes"] if kind in node["devices"])
    more = (count - now) // node["devices"][kind]
    if list(node["devices"]) == [kind]:
        node["count"] = node.get("count", 1) + more
    else:
        extra = dict(node, name=node["name"] + "-more", count=more, devices={kind: node["devices"][kind]})
        cluster["nodes"].append(extra)


def apply(job, offer: dict) -> None:
    """Does what the user would do about `offer`."""
    words = offer["option"].split(" ")
    if words[0] == "without":
        job.options.remove((words[1], " ".join(words[2:])))
    elif words[0].startswith("--"):
        job.options = [each for each in job.options if each[0] != words[0]] + [(words[0], words[1])]
    elif offer["subject"].startswith("memory of"):
        kinds = [offer["deviceType"]] if offer["deviceType"] else list(job.cluster["device_types"])
        for kind in kinds:
            job.cluster["device_types"][kind]["memory"] = f"{offer['value']:.0f}B"
    else:
        assert offer["subject"].startswith("devices of type"), offer
        with_devices(job.cluster, offer["deviceType"], round(offer["value"]))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_infeasible(case: Case, job) -> None:
    asked = job(case.model, case.cluster, case.options)
    status, told = asked.run()
    assert status == 2
    assert told["feasible"] is False
    assert told["proven"] is True
    assert not (asked.folder / "out").exists()
    assert len(told["conflict"]) == len(case.conflict), told["conflict"]
    for pattern, constraint in zip(case.conflict, told["conflict"]):
        assert re.search(pattern, constraint), told["conflict"]
    for constraint in told["conflict"]:
        assert without_constraint(asked, constraint).run()[0] == 0, f"{constraint} is blamed without cause"
    offers = told["relaxations"]
    for subject in case.offers:
        assert any(re.fullmatch(subject, offer["subject"]) for offer in offers), offers
    for offer in offers:
        assert offer["helps"]
        changed = copy.deepcopy(asked)
        apply(changed, offer)
        assert changed.run()[0] == 0, f"{offer} does not help"


def test_a_search_that_leaves_plans_out_proves_nothing(job) -> None:
    """1193 samples/s can be had, 1073 by what the strategy `greedy` looks at."""
    options = [("--batch", "64"), floor(1130)]
    assert job("bert_base", bundled("mixed-64"), options).run()[0] == 0
    status, told = job("bert_base", bundled("mixed-64"), [*options, ("--strategy", "greedy")]).run()
    assert status == 2
    assert told["feasible"] is False
    assert told["proven"] is False


def test_two_conflicts_are_relaxed_together(job) -> None:
    """Neither more memory nor a larger budget is enough by itself."""
    asked = job("tower", pool(fast=2, slow=0, fast_memory="500MB"), [budget(1)])
    status, told = asked.run()
    assert status == 2
    assert told["relaxations"]
    assert not any(offer["helps"] for offer in told["relaxations"])
    for offer in told["relaxations"]:
        alone = copy.deepcopy(asked)
        apply(alone, offer)
        assert alone.run()[0] == 2
    for offer in told["relaxations"]:
        apply(asked, offer)
    assert asked.run()[0] == 0


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 14
    assert len({case.name for case in CASES}) == len(CASES)


def test_a_plan_says_which_layers_are_together_and_apart(job) -> None:
    asked = job("tower", pool(), [colocate("first", "second"), separate("second", "head")])
    status, plan = asked.run()
    assert status == 0
    assert plan["colocations"] == [{"layers": ["first", "second"]}]
    assert plan["separations"] == [{"layers": ["second", "head"]}]
    held = {check["name"]: check["holds"] for check in plan["checks"]}
    assert held["colocations"] and held["separations"]
    told = subprocess.run(
        [BINARY, "inspect", asked.folder / "out", "--layer", "second"],
        capture_output=True, text=True, check=True,
    ).stdout
    assert "is to be in one stage with 'first'" in told
    assert "is to be in another stage than 'head'" in told


@pytest.mark.parametrize(
    "options, code",
    [
        ([("--colocate", "embed")], "HP1801"),
        ([("--separate", "embed,,head")], "HP1801"),
        ([("--colocate", "embed,nobody")], "HP1301"),
        ([("--separate", "embed,embed")], "HP1216"),
        ([("--pareto", ""), ("--pareto-points", "1")], "HP1801"),
        ([("--work-limit", "0")], "HP1801"),
    ],
)
def test_what_is_not_accepted_is_refused(options, code, job) -> None:
    asked = job("tower", pool(), options)
    done = subprocess.run(asked.command(), capture_output=True, text=True)
    assert done.returncode == 1
    assert f"[{code}]" in done.stderr
    assert not (asked.folder / "out").exists()
