"""Tiny random instances: what `heterplan compile` answers, against a list of every plan.

`bench/oracle.py` does the same with as many instances as wanted, and says what it counted.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from compare import Answer, Verdict, compare, compile_instance
from instance import DeviceType, Instance, Layer, Link, NodeGroup, Request, Tensor, Times
from iteration import Placed, by_formula, by_passes
from laws import look_at_laws
from machines import Group, Layout, compact, divisions, slots
from placements import judge_placement
from random_instance import random_instance
from shrink import shrink
from stages import partitions
from synchronous import SynchronousPlanner

SAMPLES = {"synchronous-1f1b": 150, "steady-state": 60, "burst": 60}


@pytest.mark.parametrize("seed", [960, 102346, 102724, 103178, 901612])
def test_what_thousands_of_instances_found(seed: int):
    """960: a device with two samples is faster than with one, so that samples one by one are not the best shares.
    102346: unlike devices share samples where more of them take less time. 102724: a stage that receives much has to divide its samples badly for lack of memory, a longer one need not.
    103178: neighbours in one node have more devices together than a limit allows.
    901612: two ways to fit add as much to an iteration, but one hides less of its synchronisation."""
    assert not compare(random_instance(seed)).disagreements


def test_rounding_decides_no_tie():
    """821398: five samples on a device and four on one of four fifths of its speed are done at once."""
    assert not compare(random_instance(821398, "burst")).disagreements


def test_a_search_that_is_cut_short_proves_nothing():
    """402954: it finds no burst, but only together with the search do the constraints say that there is none."""
    assert not compare(random_instance(402954, "burst")).disagreements


@pytest.mark.parametrize("model", SAMPLES)
def test_answers_are_those_of_a_list_of_every_plan(model: str):
    apart, mixed, feasible, proven = {}, 0, 0, 0
    for seed in range(SAMPLES[model]):
        verdict = compare(random_instance(seed, model))
        if verdict.disagreements:
            apart[seed] = verdict.disagreements
        mixed += verdict.mixed
        feasible += verdict.answer.feasible
        proven += bool(verdict.answer.found.get("proven"))
    assert not apart
    assert feasible > SAMPLES[model] / 3  # the instances say something
    assert proven > (SAMPLES[model] - feasible) / 2 > 2  # most answers that there is no plan
    assert mixed > 5 or model != "synchronous-1f1b"


def test_stages_of_several_types_lie_in_one_node_where_that_pays():
    """61: there, but for what crosses the boundary behind it, which the devices would send one after another."""
    verdicts = {seed: compare(random_instance(seed, full_nodes=True)) for seed in range(80)}
    assert not {seed: verdict.disagreements for seed, verdict in verdicts.items() if verdict.disagreements}
    best = [verdict.planner.documented.plan for verdict in verdicts.values()]
    assert any(group.in_one_node for plan in best if plan for group in plan.groups)


@pytest.mark.parametrize("model", SAMPLES)
def test_planted_mistakes_are_found(model: str):
    instance, answer = first_plan(model)
    sign = 1 if instance.request.objective == "throughput" else -1
    found = set()

    def plant(**changes):
        changed = replace(answer, found=answer.found | changes)
        found.update(kind for kind, _ in compare(instance, changed).disagreements)

    value = answer.found["objectiveValue"]
    plant(lowerBound=value * (1 - sign * 1e-4))
    plant(objectiveValue=value * (1 + sign * 1e-4))
    plant(objectiveValue=value * (1 - sign * 1e-4))
    plant(iterationSeconds=answer.found["iterationSeconds"] * (1 + 1e-4))
    nothing = replace(answer, status=2, found={"feasible": False, "proven": True})
    found.update(kind for kind, _ in compare(instance, nothing).disagreements)
    impossible = replace(instance, request=replace(instance.request, min_throughput=1e9))
    found.update(kind for kind, _ in compare(impossible, answer).disagreements)
    assert found == {"bound", "impossible", "optimal", "figures", "not there", "false proof"}


def first_plan(model: str, is_mixed: bool = False):
    """`is_mixed`: with a stage of several types."""
    for seed in range(100):
        instance = random_instance(seed, model)
        answer = compile_instance(instance)
        if answer.feasible and answer.found["optimal"] and answer.complete:
            if not is_mixed or compare(instance, answer).mixed:
                return instance, answer
    raise AssertionError("no instance has a plan")


def test_figures_of_stages_count():
    instance, answer = first_plan("synchronous-1f1b")
    stages = answer.found["stages"]
    for name in ("forwardSeconds", "backwardSeconds", "syncSeconds", "memoryBytes"):
        changed = [stages[0] | {name: stages[0].get(name, 0.0) * 1.001 + 1e-6}, *stages[1:]]
        verdict = compare(instance, replace(answer, found=answer.found | {"stages": changed}))
        assert [kind for kind, _ in verdict.disagreements] == ["figures"], name


def test_a_device_more_and_a_limit_less_never_make_a_plan_worse():
    """As far as the searched space itself is not worse."""
    broken = {}
    for seed in range(10):
        instance = random_instance(seed)
        verdict = compare(instance)
        look_at_laws(instance, verdict, seed)
        if verdict.disagreements:
            broken[seed] = verdict.disagreements
    assert not broken


def test_state_is_not_divided_without_need():
    """830952: with a device more in its node, three devices are alike. Before, memory limited their shares, which was
    taken for a reason to divide their state, and so to update faster."""
    verdict = compare(random_instance(830952))
    assert look_at_laws(random_instance(830952), verdict, 830952) > 0
    assert not verdict.disagreements and not verdict.beyond


def test_a_group_of_nodes_more_leaves_no_mixes_of_types_out():
    """510294: with it there are six node classes, 216 combinations of numbers of devices."""
    instance = random_instance(510294, full_nodes=True)
    verdict = Verdict(compile_instance(instance), None, None)
    assert look_at_laws(instance, verdict, 510294) > 5
    assert not verdict.disagreements and not verdict.beyond


def test_laws_look_at_plans_only():
    instance = random_instance(0)
    verdict = Verdict(Answer(1, {}, "error: no such file"), None, None)
    assert look_at_laws(instance, verdict) == 0
    assert verdict.disagreements == [("failed", "error: no such file")]


def test_mixes_of_types_that_are_left_out_are_no_mistake():
    """The search excludes mixes of types, so a plan without them is not an error; neither is a plan
    that is said to be worse than it is."""
    instance, answer = first_plan("synchronous-1f1b", is_mixed=True)
    sign = 1 if instance.request.objective == "throughput" else -1
    worse = answer.found["objectiveValue"] * (1 - sign * 1e-4)
    found = answer.found | {"objectiveValue": worse, "lowerBound": worse}
    kinds = {kind for kind, _ in compare(instance, replace(answer, found=found)).disagreements}
    assert kinds == {"bound", "optimal", "figures"}
    left_out = ["most mixes of device types in a stage"]
    said = found | {"searchSpace": "pipelines-reduced", "searchSpaceLimits": left_out}
    verdict = compare(instance, replace(answer, found=said))
    assert {kind for kind, _ in verdict.disagreements} == {"figures"}
    assert verdict.beyond == ["bound beaten with mixes, which is said: by 1.0e-04"]
    none = {"feasible": False, "searchSpace": "pipelines-reduced", "searchSpaceLimits": left_out}
    verdict = compare(instance, replace(answer, status=2, found=none))
    assert not verdict.disagreements and verdict.beyond
    assert compare(instance, replace(answer, status=2, found=none | {"proven": True})).disagreements


def test_evaluate_says_the_same_of_any_placement():
    judged = {seed: judge_placement(random_instance(seed), seed) for seed in range(1000, 1050)}
    assert not {seed: problems for seed, problems in judged.items() if problems}
    assert sum(problems is not None for problems in judged.values()) > 20


def test_an_instance_shrinks_to_what_a_defect_needs():
    instance = random_instance(3)
    small = shrink(instance, lambda each: sum(layer.parameter_bytes for layer in each.layers) > 0)
    assert len(small.layers) == 1 and small.tensors == () and small.device_count() == 1 and small.request.batch == 1


# The list itself, by hand.


def worked_example() -> Instance:
    """The worked example of docs/formats.md."""
    layers = (
        Layer("embed", 400_000_000, activation_bytes=1_000_000),
        Layer("body", 100_000_000, activation_bytes=8_000_000, workspace_bytes=2_000_000),
        Layer("head", 10_000_000, activation_bytes=1_000_000),
    )
    forward = {"embed": (10, 80, 4), "body": (90, 10, 2), "head": (30, 2, 1)}  # ms: left, right, update; 4 samples
    times = {
        (name, kind, n): Times(forward[name][i] * n / 4e3, forward[name][i] * n / 2e3, forward[name][2] * 1e-3)
        for name in forward
        for i, kind in enumerate(("left", "right"))
        for n in range(1, 17)
    }
    inside = Link(10_000_000_000, 0)
    return Instance(
        layers,
        (Tensor("words", 0, (1,), 1_000_000), Tensor("features", 1, (2,), 500_000)),
        (DeviceType("left", 16_000_000_000, 1.0), DeviceType("right", 2_000_000_000, 2.0)),
        (NodeGroup("l", 1, {"left": 1}, inside), NodeGroup("r", 1, {"right": 1}, inside)),
        Link(1_000_000_000, 1_000_000),
        {},
        times,
        Request(batch=16, micro_batches=4),
    )


def test_the_worked_example_takes_what_the_document_says():
    planner = SynchronousPlanner(worked_example())
    positions, groups = (0, 1, 3), (Group(((1,), ())), Group(((), (1,))))
    runs = [
        *planner.stages.documented(0, 1, groups[0], 4, 2, False),
        *planner.stages.documented(1, 3, groups[1], 4, 1, True),
    ]
    plan = planner.place(positions, Layout(groups, (False,)), 4, runs)
    assert plan.iteration == pytest.approx(0.203)
    assert [run.memory for run in plan.runs] == [1220e6, 368e6]
    assert plan.receives == (pytest.approx((0, 0.005)), pytest.approx((0.005, 0)))
    planner.search()
    assert planner.documented.plan.positions == positions and planner.documented.objective == pytest.approx(0.203)


def test_passes_wait_where_the_simulator_says_so():
    """The example of docs/rationale/simulator.md."""
    stages = [Placed(f, b, 0, [(f, b)]) for f, b in ((9, 1), (1, 11), (1, 1))]
    assert by_formula(stages, 2) == 36
    assert by_passes(stages, 2) == 42


def besides(nodes, parts) -> list[tuple[bool, ...]]:
    return sorted(each.beside for each in divisions(nodes, 2) if each.parts == parts)


def test_devices_are_divided_in_every_way():
    one, two = (((2,), 1),), (((1,), 2),)
    assert [each.parts[0] for each in divisions(one, 1)] == [((),), ((1,),), ((2,),)]
    some = {(each.parts[0], each.in_one_node, each.beside) for each in divisions(two, 2)}
    assert {(((1,), (1,)), (True, True), (False,)), (((1, 1), ()), (False, False), (False,))} <= some
    assert besides((((2,), 2),), ((((1,), (1,)),))) == [(False,), (True,)]
    ways = {each.parts[0][0] for each in divisions((((2,), 2),), 1)}
    assert ways == {(), (1,), (2,), (1, 1), (2, 1), (2, 2)}
    assert len(divisions((((3,), 2),), 2)) == len(set(divisions((((3,), 2),), 2)))
    # a device of either class: in one node, or in two
    assert besides((((1, 1), 2),), (((1,), ()), ((), (1,)))) == [(False,), (True,)]
    assert besides((((1, 0), 1), ((0, 1), 1)), (((1,), ()), ((), (1,)))) == [(False,)]
    together = [each.in_one_node for each in divisions((((1, 1), 2),), 1) if each.parts == (((1,),), ((1,),))]
    assert sorted(together) == [(False,), (True,)]
    assert compact(5, 2) == (2, 2, 1)


def test_samples_are_divided_in_every_way():
    assert sorted(partitions(6, 3, 6)) == [(2, 2, 2), (3, 2, 1), (4, 1, 1)]


@pytest.mark.parametrize(
    ("devices", "size", "nodes", "taken"),
    [(1, 4, 2, 1), (2, 4, 2, 2), (3, 4, 2, 4), (5, 4, 2, 5), (7, 4, 2, 8), (2, 6, 2, 3), (1, 6, 2, 1), (2, 3, 2, 3),
     (3, 4, 1, 3)],
)  # fmt: skip
def test_slots(devices: int, size: int, nodes: int, taken: int):
    assert slots(devices, size, nodes) == taken
