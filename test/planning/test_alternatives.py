"""The alternatives of a plan: the plans of `compile --alternatives`, in the report, in inspect, and as evaluate
prices them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import BINARY, CLUSTERS, MODELS, pool, tower_layers, tower_profile

FIGURES = ("objectiveValue", "iterationSeconds", "throughput", "costPerHour", "costPerMillionSamples")
CASES = {
    "tower": ("pool", "--batch", "64", "--min-throughput", "250"),
    "resnet50": ("heterps-testbed", "--batch", "256", "--objective", "cost"),
    "ctrdnn": ("mixed-small", "--batch", "256", "--iteration-model", "steady-state"),
}


def heterplan(*words: object) -> str:
    done = subprocess.run([BINARY, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Planned:
    """A model with its plan and the two best alternatives to it."""

    def __init__(self, name: str, folder: Path, most: str = "2", *more: str) -> None:
        cluster, *options = CASES[name]
        self.out, self.model = folder / "out", MODELS / f"{name}.onnx"
        self.request: list = ["--cluster", CLUSTERS / f"{cluster}.yaml"]
        if name == "tower":
            self.model = folder / "tower.layers.json"
            self.model.write_text(json.dumps(tower_layers()))
            (folder / "tower.profile.json").write_text(json.dumps(tower_profile()))
            (folder / "pool.yaml").write_text(yaml.safe_dump(pool(), sort_keys=False))
            self.request = ["--cluster", folder / "pool.yaml", "--profile", folder / "tower.profile.json"]
        self.options = options
        self.said = heterplan("compile", self.model, *self.request, *options, "--alternatives", most, *more, "-o", self.out)
        self.plan = json.loads((self.out / "plan.json").read_text())
        files = self.out.glob("alternatives/*/plan.json")
        self.alternatives = {file.parent.name: json.loads(file.read_text()) for file in files}

    def evaluate(self, placement: Path, *options: str) -> dict:
        words = ("--model", self.model, *self.request, *options, "--strategy", "greedy", "--json")
        return json.loads(heterplan("evaluate", placement, *words))

    def layers(self) -> list[str]:
        return [layer for stage in self.plan["stages"] for layer in stage["layers"]]


@pytest.fixture(scope="module", params=CASES)
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Planned:
    return Planned(request.param, tmp_path_factory.mktemp(request.param))


def placement_of(plan: dict) -> dict:
    """As a user would write it."""
    stages = []
    for stage in plan["stages"]:
        devices: dict[str, int] = {}
        shares: dict[str, list[int]] = {}
        for replica in stage["replicas"]:
            kind = replica["devices"][0]["type"]
            devices[kind] = devices.get(kind, 0) + 1
            shares.setdefault(kind, []).append(replica["share"])
        flat = [share for kind in devices for share in shares[kind]]
        stages.append({"layers": [stage["layers"][0], stage["layers"][-1]], "devices": devices, "shares": flat})
    return {"microBatches": plan["microBatches"], "stages": stages}


def test_there_are_two_and_none_is_the_plan(planned: Planned) -> None:
    assert len(planned.alternatives) == 2
    for alternative in planned.alternatives.values():
        assert alternative["stages"] != planned.plan["stages"]
        assert alternative["checks"] and all(check["holds"] for check in alternative["checks"])
        assert not alternative.get("optimal") and alternative.get("deviceLimits", []) == []
        assert alternative["lowerBound"] == planned.plan["lowerBound"]


def test_evaluate_says_the_same_of_each(planned: Planned, tmp_path: Path) -> None:
    for name, alternative in planned.alternatives.items():
        again = planned.evaluate(planned.out / "alternatives" / name)
        assert {key: again[key] for key in FIGURES} == {key: alternative[key] for key in FIGURES}
        (tmp_path / "placement.yaml").write_text(yaml.safe_dump(placement_of(alternative), sort_keys=False))
        written = planned.evaluate(tmp_path / "placement.yaml", *planned.options)
        for key in FIGURES:
            assert written[key] == pytest.approx(alternative[key], rel=1e-9), (name, key)


def test_inspect_says_what_each_costs_and_where_the_layer_is(planned: Planned) -> None:
    for layer in (planned.layers()[0], planned.layers()[-1]):
        shown = json.loads(heterplan("inspect", planned.out, "--layer", layer, "--json"))["alternatives"]
        assert {each["name"] for each in shown} == set(planned.alternatives)
        assert [each["shareWorse"] for each in shown] == sorted(each["shareWorse"] for each in shown)
        text = heterplan("inspect", planned.out, "--layer", layer)
        for each in shown:
            alternative = planned.alternatives[each["name"]]
            assert each["objectiveValue"] == alternative["objectiveValue"]
            assert each["iterationSeconds"] == alternative["iterationSeconds"]
            home = [stage["id"] for stage in alternative["stages"] if layer in stage["layers"]]
            assert [each["stage"]] == home
            value, best = alternative["objectiveValue"], planned.plan["objectiveValue"]
            worse = (best - value if planned.plan["objective"] == "throughput" else value - best) / best
            assert each["shareWorse"] == pytest.approx(worse)
            assert f"{each['title']}: " in text
            assert f"in stage {each['stage']} of {len(alternative['stages'])}, on {each['devices']}" in text


def test_the_report_names_them_and_what_limits_the_plan(planned: Planned) -> None:
    page = (planned.out / "report.html").read_text()
    table = page[page.index("<h2>Alternatives</h2>"):].split("</table>")[0]
    rows = re.findall(r"<tr><td[^>]*>(.*?)</td>", table)
    shown = json.loads(heterplan("inspect", planned.out, "--layer", planned.layers()[0], "--json"))["alternatives"]
    assert rows == ["this plan", *(each["title"] for each in shown)]
    for alternative in planned.alternatives.values():
        assert f"{alternative['costPerMillionSamples']:.4g}" in table
    found = planned.evaluate(planned.out)
    limits = page[page.index("<h2>What limits the plan</h2>"):].split("</p>")[0]
    if len(planned.plan["stages"]) > 1:
        assert f"Stage {found['bottleneckStage']} is the bottleneck" in limits
    else:
        assert "The only stage needs" in limits
    near = re.search(r"closest to its limit is <b>([\w-]+)</b>", limits)
    assert (near[1] if near else "bottleneck") == found["binding"]


def test_the_text_lists_them(planned: Planned) -> None:
    for text in (planned.said, heterplan("inspect", planned.out)):
        for name in planned.alternatives:
            assert f"alternatives/{name}/plan.json" in text


def test_the_request_decides_which_are_accepted(tmp_path: Path) -> None:
    """A cheaper plan that misses the floor is no alternative."""
    planned = Planned("tower", tmp_path, "99")
    assert len(planned.alternatives) >= 2
    assert all(each["throughput"] >= 250 * (1 - 1e-9) for each in planned.alternatives.values())
    assert planned.plan["objective"] == "cost"


def test_a_changed_alternative_is_found(tmp_path: Path) -> None:
    planned = Planned("tower", tmp_path)
    file = planned.out / "alternatives" / next(iter(planned.alternatives)) / "plan.json"
    file.write_text(file.read_text().replace('"throughput"', '"throughput" '))
    done = subprocess.run([BINARY, "verify", planned.out, "--model", planned.model, *planned.request],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode != 0
    assert f"alternatives/{file.parent.name}/plan.json" in done.stdout + done.stderr


def test_without_the_option_there_are_none_and_inspect_says_how(tmp_path: Path) -> None:
    planned = Planned("tower", tmp_path, "2")
    before = planned.alternatives
    planned = Planned("tower", tmp_path, "0")  # those of the plan before it go
    assert before and not planned.alternatives
    said = heterplan("inspect", planned.out, "--layer", "head")
    assert "heterplan compile --alternatives 2" in said
    assert "--alternatives 2" in (planned.out / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--alternatives", "2", "--pareto"), "[HP1802] --alternatives with --pareto is not supported"),
        (("--alternatives", "2", "--schedule", "burst"), "[HP1802] --alternatives to bursts is not supported"),
        (("--alternatives", "some"), "--alternatives"),
    ],
)
def test_what_it_cannot_be_combined_with(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    command = [BINARY, "compile", MODELS / "2emb.onnx", "--cluster", "local-cpu", *options, "-o", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and said in done.stderr
    assert not (tmp_path / "out").exists()
