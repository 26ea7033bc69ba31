"""calibrate: a machine that differs from its profile in a known way, seen through a run of a plan only."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from conftest import BINARY, SOURCE, pool, tower_layers, tower_profile

PLACES = {"embed": "slow", "first": "slow", "second": "fast", "third": "fast", "head": "fast"}


def machine() -> dict:
    """One device of each type; links have names, so that a profile can correct them."""
    cluster = pool(fast=1, slow=1)
    cluster["network"] = "ethernet-10g"
    return cluster


def heterplan(*arguments: object, status: int = 0) -> str:
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def files(folder: Path) -> list[object]:
    import yaml

    (folder / "tower.layers.json").write_text(json.dumps(tower_layers()))
    (folder / "machine.yaml").write_text(yaml.safe_dump(machine(), sort_keys=False))
    return [folder / "tower.layers.json", "--cluster", folder / "machine.yaml"]


def compiled(folder: Path, out: str, *profiles: Path) -> dict:
    pins = [word for layer, place in PLACES.items() for word in ("--pin", f"{layer}={place}")]
    given = [word for profile in profiles for word in ("--profile", profile)]
    return json.loads(
        heterplan("compile", *files(folder), *given, "--batch", 32, "--micro-batches", 4,
                  "--schedule", "pipeline", *pins, "--force", "--json", "-o", folder / out)
    )  # fmt: skip


def write_profile(path: Path, factors: dict[str, tuple[float, float, float]]) -> Path:
    """The tower's profile; `factors` of forward, backward and update by device type."""
    profile = tower_profile()
    for entry in profile["entries"]:
        scale = factors.get(entry["deviceType"], (1, 1, 1))
        for name, factor in zip(("forward", "backward", "update"), scale):
            entry[f"{name}Seconds"] *= factor
    path.write_text(json.dumps(profile))
    return path


def measured(folder: Path, plan: str) -> Path:
    """The step that the simulator sees in `plan`, as if it had been measured."""
    path = folder / f"{plan}.trace.json"
    heterplan("simulate", folder / plan, "--trace", path)
    trace = json.loads(path.read_text())
    trace["otherData"]["measured"] = True
    path.write_text(json.dumps(trace))
    return path


def calibrate(folder: Path, plan: str, profile: Path, trace: Path, *more: object, status: int = 0) -> str:
    model, *cluster = files(folder)
    return heterplan("calibrate", folder / plan, "--model", model, *cluster, "--profile", profile,
                     "--trace", trace, "-o", folder / "corrected.profile.json", *more, status=status)  # fmt: skip


def test_planning_with_the_corrected_profile_predicts_the_run(tmp_path: Path) -> None:
    profile = write_profile(tmp_path / "stated.profile.json", {})
    truth = {"slow": (1.6, 1.3, 2.0), "fast": (0.7, 0.9, 1.0)}
    stated = compiled(tmp_path, "plan", profile)
    real = compiled(tmp_path, "real", write_profile(tmp_path / "real.profile.json", truth))
    assert [s["layers"] for s in stated["stages"]] == [s["layers"] for s in real["stages"]]
    assert abs(stated["iterationSeconds"] / real["iterationSeconds"] - 1) > 0.1

    trace = measured(tmp_path, "real")
    said = json.loads(calibrate(tmp_path, "plan", profile, trace, "--json"))
    by_type = {s["deviceType"]: [s["forward"], s["backward"], s["update"]] for s in said["stages"]}
    assert by_type["slow"] == pytest.approx(truth["slow"])
    assert by_type["fast"] == pytest.approx(truth["fast"])
    assert [link["ratio"] for link in said["links"]] == pytest.approx([1.0])

    again = compiled(tmp_path, "again", profile, tmp_path / "corrected.profile.json")
    assert again["iterationSeconds"] == pytest.approx(real["iterationSeconds"], rel=1e-9)
    assert said["correctedSeconds"] == pytest.approx(real["iterationSeconds"], rel=1e-9)
    assert again["provenance"].get("measured", 0) == 0  # corrected is less than measured
    assert again["provenance"]["interpolated"] > 0.5


def test_other_files_than_the_plan_was_made_with_are_refused(tmp_path: Path) -> None:
    profile = write_profile(tmp_path / "stated.profile.json", {})
    other = write_profile(tmp_path / "other.profile.json", {"slow": (2, 2, 2)})
    compiled(tmp_path, "plan", profile)
    trace = measured(tmp_path, "plan")
    said = calibrate(tmp_path, "plan", other, trace, status=1)
    assert "--profile: error: [HP1305] is not what the plan was predicted with" in said
    assert not (tmp_path / "corrected.profile.json").exists()


def test_a_prediction_and_a_folder_without_timelines_are_refused(tmp_path: Path) -> None:
    profile = write_profile(tmp_path / "stated.profile.json", {})
    compiled(tmp_path, "plan", profile)
    trace = tmp_path / "plan.trace.json"
    heterplan("simulate", tmp_path / "plan", "--trace", trace)
    said = calibrate(tmp_path, "plan", profile, trace, status=1)
    assert "plan.trace.json: error: [HP1603] is a prediction, not a measured timeline" in said
    model, *cluster = files(tmp_path)
    said = heterplan("calibrate", tmp_path / "plan", "--model", model, *cluster, "--profile", profile,
                     "-o", tmp_path / "corrected.profile.json", status=1)  # fmt: skip
    assert "error: [HP1001] there is no measured timeline '*.trace.json' in it" in said


def test_hostile_timelines_end_with_a_diagnostic(tmp_path: Path) -> None:
    profile = write_profile(tmp_path / "stated.profile.json", {})
    compiled(tmp_path, "plan", profile)
    whole = json.loads(measured(tmp_path, "plan").read_text())
    hostile = tmp_path / "hostile.trace.json"

    def event(**fields: object) -> list[dict]:
        first = whole["traceEvents"][0]
        return [{**first, **fields}, *whole["traceEvents"][1:]]

    for events in (
        [],
        event(tid=2147483647),
        event(tid=-1),
        event(args={"index": 2147483647}),
        event(dur=1e300),
        whole["traceEvents"] + whole["traceEvents"],
    ):
        hostile.write_text(json.dumps({**whole, "traceEvents": events}))
        assert "error: [HP" in calibrate(tmp_path, "plan", profile, hostile, status=1)


CNN = SOURCE / "test/data/small/cnn.onnx"
ONE = """\
name: one
device_types: {gpu: {catalogue: rtx-3090}}
nodes: [{name: node, devices: {gpu: 1}, link: pcie4}]
"""


def on_one_gpu(folder: Path, batch: int, *options: object) -> dict:
    (folder / "one.yaml").write_text(ONE)
    return json.loads(
        heterplan("compile", CNN, "--cluster", folder / "one.yaml", "--batch", batch, "--micro-batches", 1,
                  "--force", "--json", "-o", folder / "plan", *options)
    )  # fmt: skip


def test_a_known_throughput_corrects_what_is_modelled_for_a_device(tmp_path: Path):
    before = on_one_gpu(tmp_path, 256)
    half = 256 / before["iterationSeconds"] / 2
    profile = tmp_path / "mine.profile.json"
    told = json.loads(
        heterplan("calibrate", "--throughput", f"{CNN} batch=256 devices=1xrtx-3090 {half}/s", "--json", "-o", profile)
    )
    assert told["ratios"] == [
        {"deviceType": "rtx-3090", "precision": "fp32", "ratio": pytest.approx(2), "runs": 1}
    ]
    after = on_one_gpu(tmp_path, 256, "--profile", profile)
    assert after["iterationSeconds"] == pytest.approx(2 * before["iterationSeconds"])
    assert after["provenance"]["regressed"] == pytest.approx(1)
    other = on_one_gpu(tmp_path, 512, "--profile", profile)["iterationSeconds"]
    assert other == pytest.approx(2 * on_one_gpu(tmp_path, 512)["iterationSeconds"])
    # another precision, and a device that nobody ran on, stay as they were
    half_precision = ("--precision", "bf16", "--profile", profile)
    assert on_one_gpu(tmp_path, 256, *half_precision)["provenance"].get("regressed", 0) == 0


def test_throughputs_of_a_table_are_merged_by_device_and_precision(tmp_path: Path):
    before = on_one_gpu(tmp_path, 256)["iterationSeconds"]
    lines = [f"{CNN},256,1xrtx-3090,{256 / before / ratio}" for ratio in (1.5, 2, 4)]
    table = tmp_path / "runs.csv"
    table.write_text("# mine\nmodel,batch,devices,throughput\n" + "\n".join(lines) + "\n")
    heterplan("calibrate", "--throughputs", table, "-o", tmp_path / "mine.profile.json")
    (ratio,) = json.loads((tmp_path / "mine.profile.json").read_text())["iterations"]
    assert (ratio["ratio"], ratio["runs"]) == (pytest.approx(2), 3)
    assert ratio["spread"] == pytest.approx(0.693, abs=1e-3)


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ("{cnn} devices=1xrtx-3090 780/s", "batch= is missing"),
        ("{cnn} batch=256 780/s", "devices= is missing"),
        ("{cnn} batch=256 devices=1xrtx-3090", "the throughput is missing"),
        ("{cnn} batch=256 devices=1xrtx-3090 fast/s", "not a number of samples per second"),
        ("{cnn} batch=256 devices=0xrtx-3090 780/s", "not a number and a type"),
        ("{cnn} batch=256 devices=1xrtx-3090,b:1 780/s", "not a number and a type"),
        ("{cnn} batch=256 devices=1xrtx-3090 colour=red 780/s", "not a setting of a run"),
        ("{cnn} batch=256 devices=1xrtx-309 780/s", "the catalogue has no device"),
    ],
)
def test_a_run_that_says_too_little_is_refused(tmp_path: Path, run: str, told: str):
    error = heterplan("calibrate", "--throughput", run.format(cnn=CNN), "-o", tmp_path / "p.json", status=1)
    assert told in error and not (tmp_path / "p.json").exists()


def test_calibrating_needs_a_plan_or_a_throughput(tmp_path: Path):
    assert "PLAN" in heterplan("calibrate", "-o", tmp_path / "p.json", status=1)
