"""`heterplan schedule` end to end: every schedule that the binary writes is checked by jobs_checker."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from conftest import BINARY, CLUSTERS, MODELS, SOURCE
from jobs_checker import check

EXAMPLE = SOURCE / "profiles/jobs/example.yaml"
POLICIES = ["auto", "pd-ors", "fifo", "srtf", "drf", "dorm", "oasis", "gavel", "gavel-like", "gavel-sum", "gavel-cost", "themis-like",
            "sia-like", "fair-share"]


def schedule(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([BINARY, "schedule", *map(str, arguments)], capture_output=True, text=True)


def checked(tmp_path, jobs: Path, cluster: Path, *options) -> dict:
    run = schedule(jobs, "--cluster", cluster, "-o", tmp_path / "out", "--force", *options)
    assert run.returncode == 0, run.stderr
    return check(tmp_path / "out/schedule.json", jobs, cluster, SOURCE / "profiles")


def contended(seed: int, jobs: int, slots: int, rules: bool = False) -> dict:
    """Jobs for mixed-small, more than it can do."""
    draw = random.Random(seed)
    made = []
    for i in range(jobs):
        on_gpus = draw.random() < 0.8
        base = draw.uniform(1, 20)
        target = draw.randint(1, slots // 2)
        made.append({
            "name": f"job{i}", "arrival": draw.randrange(slots), "priority": draw.randint(-1, 1),
            "epochs": draw.randint(1, 20), "samples": draw.randint(20000, 300000), "batch": draw.randint(1, 64),
            "sample_time": {"t4": f"{3 * base:.3f}ms", "v100": f"{base:.3f}ms", "a100": f"{base / 2:.3f}ms"}
            if on_gpus else f"{base:.3f}ms",
            "gradient": f"{draw.randint(1, 500)}MB",
            "worker": {"gpu": 1, "cpu": 4, "memory": "16GiB"} if on_gpus else {"cpu": 6, "memory": "8GiB"},
            "server": {"cpu": 2, "memory": "4GiB"}, "workers_per_server": draw.randint(1, 6),
            "utility": draw.choice([
                {"kind": "sigmoid", "value": draw.uniform(1, 100), "decay": draw.uniform(0, 4), "target": target},
                {"kind": "linear", "value": draw.uniform(1, 100), "deadline": target + 1},
                {"kind": "deadline", "value": draw.uniform(1, 100), "deadline": target},
                {"kind": "constant", "value": draw.uniform(1, 100)}]),
        })
        if rules:
            made[-1] |= draw.choice([{}, {"min_workers": draw.randint(1, made[-1]["batch"])}])
            made[-1] |= {"same_type": draw.random() < 0.5, "preemptible": draw.random() < 0.7}
            made[-1] |= draw.choice([{}, {"max_nodes": draw.randint(1, 3)}])
            made[-1] |= draw.choice([{}, {"restart": {"seconds": draw.randint(0, 300)}}, {"restart": "2min"}])
            made[-1] |= draw.choice([{}, {"deadline": {"slots": target, "class": draw.choice(["hard", "soft"])}}])
            made[-1] |= draw.choice([{}, {}, {"after": [made[draw.randrange(i)]["name"]]} if i else {}])
    load = {"slot": "10min", "slots": slots, "jobs": made}
    if rules:
        load["queues"] = [{"name": "a", "quota": {"a100": 3, "gpu": 6}, "cohort": "lab", "borrow": {"a100": 1}},
                          {"name": "b", "quota": {"gpu": 2, "memory": "200GiB"}, "cohort": "lab", "weight": 2},
                          {"name": "c", "share": 0.5}]
        for job in made:
            job["queue"] = draw.choice(["a", "b", "c"])
    return load


@pytest.mark.parametrize("policy", POLICIES)
def test_the_example_holds(tmp_path, policy):
    result = checked(tmp_path, EXAMPLE, CLUSTERS / "mixed-small.yaml", "--policy", policy)
    assert result["policy"] == policy


@pytest.mark.parametrize("policy", POLICIES)
def test_contended_clusters_hold_and_the_bound_is_the_same(tmp_path, policy):
    for seed in range(3):
        jobs = tmp_path / f"jobs{seed}.yaml"
        jobs.write_text(yaml.safe_dump(contended(seed, 40, 30)))
        result = checked(tmp_path, jobs, CLUSTERS / "mixed-small.yaml", "--policy", policy, "--seed", str(seed))
        other = checked(tmp_path, jobs, CLUSTERS / "mixed-small.yaml", "--policy", "fifo")
        assert result["utilityUpperBound"] == other["utilityUpperBound"]


@pytest.mark.parametrize("policy", POLICIES)
def test_rules_of_jobs_hold(tmp_path, policy):
    for seed in range(2):
        jobs = tmp_path / f"jobs{seed}.yaml"
        jobs.write_text(yaml.safe_dump(contended(seed, 25, 24, rules=True)))
        assert checked(tmp_path, jobs, CLUSTERS / "mixed-small.yaml", "--policy", policy)["makespan"] > 0


def test_pods_of_whole_nodes_start_together(tmp_path):
    """kueue#1476: the master of a job of two pods of 8 GPUs waits for its worker."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("device_types: {a100: {catalogue: a100-sxm4-80gb}}\n"
                       "nodes: [{name: n, count: 2, devices: {a100: 8}, link: nvlink3, host: {cpu: 9, memory: 9GiB}}]\n"
                       "network: {bandwidth: 100Gbit/s, latency: 5us}\n")
    job = {"epochs": 1, "sample_time": "10ms", "gradient": "0B", "server": {}, "workers_per_server": 9}
    one = job | {"name": "one", "arrival": 0, "samples": 60000, "batch": 1, "worker": {"gpu": 1},
                 "utility": {"kind": "constant", "value": 10}}
    pods = job | {"name": "pods", "arrival": 1, "samples": 96000, "batch": 2, "worker": {"gpu": 8},
                  "utility": {"kind": "constant", "value": 50}}
    for stated in ({}, {"min_workers": 2}, {"min_workers": 1}):
        jobs = tmp_path / "jobs.yaml"
        jobs.write_text(yaml.safe_dump({"slot": "60s", "slots": 40, "jobs": [one, json.loads(json.dumps(pods | stated))]}))
        result = checked(tmp_path, jobs, cluster, "--policy", "fifo")
        assert result["jobs"][1]["minWorkers"] == stated.get("min_workers", 2)
        assert result["jobs"][1]["start"] == (1 if stated.get("min_workers") == 1 else 10)


@pytest.mark.parametrize("gpus, nodes, pods", [(4, 2, 2), (2, 3, 3), (16, 3, 2)])
def test_pods_of_other_sizes_start_together(tmp_path, gpus, nodes, pods):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("device_types: {a100: {catalogue: a100-sxm4-80gb}}\n"
                       f"nodes: [{{name: n, count: {nodes}, devices: {{a100: {gpus}}}, link: nvlink3, host: {{cpu: 9, memory: 9GiB}}}}]\n"
                       "network: {bandwidth: 100Gbit/s, latency: 5us}\n")
    job = {"epochs": 1, "sample_time": "10ms", "gradient": "0B", "server": {}, "workers_per_server": 9}
    busy = [job | {"name": f"one{i}", "arrival": 0, "samples": 60000, "batch": 1, "worker": {"gpu": 1}, "preemptible": False,
                   "utility": {"kind": "constant", "value": 10}} for i in range(nodes - pods + 1)]
    gang = job | {"name": "pods", "arrival": 1, "samples": 48000 * pods, "batch": pods, "worker": {"gpu": gpus},
                  "utility": {"kind": "constant", "value": 50}}
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(yaml.safe_dump({"slot": "60s", "slots": 40, "jobs": json.loads(json.dumps([gang, *busy]))}))
    for policy in ("auto", "pd-ors", "fifo", "gavel"):
        result = checked(tmp_path, jobs, cluster, "--policy", policy)
        assert result["jobs"][0]["minWorkers"] == pods
        workers = {}
        for row in result["allocations"]:
            if row["job"] == "pods":
                workers[row["slot"]] = workers.get(row["slot"], 0) + row["workers"]
        assert set(workers.values()) == {pods}, policy


def test_small_jobs_share_a_node(tmp_path):
    """microsoft/pai#3894: two jobs of 4 GPUs leave a node of 8 to one of 6; FIFO runs all three, and so must the default."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("device_types: {v100: {catalogue: v100-sxm2-16gb}}\n"
                       "nodes: [{name: n, count: 2, devices: {v100: 8}, link: nvlink2, host: {cpu: 9, memory: 9GiB}}]\n"
                       "network: {bandwidth: 100Gbit/s, latency: 5us}\n")
    made = [{"name": f"job{i}", "arrival": 0, "epochs": 1, "samples": 6000 + 3000 * (i == 2), "batch": 1,
             "sample_time": "40ms", "gradient": "0B", "worker": {"gpu": 6 if i == 2 else 4}, "server": {},
             "workers_per_server": 9, "utility": {"kind": "deadline", "value": 10, "deadline": 5}} for i in range(3)]
    for order in ((0, 1, 2), (2, 0, 1), (0, 2, 1)):
        jobs = tmp_path / "jobs.yaml"
        jobs.write_text(yaml.safe_dump({"slot": "60s", "slots": 20, "jobs": [made[i] for i in order]}))
        assert checked(tmp_path, jobs, cluster)["totalUtility"] == 30


def test_time_and_gradient_come_from_models(tmp_path):
    load = yaml.safe_load(EXAMPLE.read_text())
    load["jobs"] = load["jobs"][:1]
    for key in ("sample_time", "gradient"):
        del load["jobs"][0][key]
    load["jobs"][0]["model"] = str(MODELS / "resnet50.onnx")
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(yaml.safe_dump(load))
    result = checked(tmp_path, jobs, CLUSTERS / "mixed-small.yaml")
    seconds = result["jobs"][0]["sampleSeconds"]
    assert seconds["a100"] < seconds["v100"] < seconds["t4"]
    assert 90e6 < result["jobs"][0]["gradientBytes"] < 120e6


def test_the_same_inputs_lead_to_the_same_bytes(tmp_path):
    texts = []
    for name in ("a", "b"):
        schedule(EXAMPLE, "--cluster", CLUSTERS / "mixed-small.yaml", "-o", tmp_path / name, "--seed", 3)
        texts.append((tmp_path / name / "schedule.json").read_bytes())
    assert texts[0] == texts[1]


TRACES = Path(os.environ.get("HETERPLAN_SHARED_DATA", SOURCE.parent / "shared/data")) / "gavel"
GAVEL_CLUSTER = """
device_types:
  k80: {kind: gpu, memory: 12GB}
  p100: {kind: gpu, memory: 16GB}
  v100: {kind: gpu, memory: 16GB}
nodes:
  - {name: k80, count: 9, devices: {k80: 4}}
  - {name: p100, count: 9, devices: {p100: 4}}
  - {name: v100, count: 9, devices: {v100: 4}}
network: {bandwidth: 10Gbit/s, latency: 10us}
"""


@pytest.mark.skipif(not TRACES.is_dir(), reason="the traces of Gavel are not there")
@pytest.mark.parametrize("trace", ["23dbec", "51b7ef", "physical_small_test", "physical_medium_test",
                                   "physical_max_min_fairness"])
def test_traces_of_gavel(tmp_path, trace):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(GAVEL_CLUSTER)
    for policy in ("auto", "pd-ors", "fifo", "gavel"):
        run = schedule(TRACES / f"{trace}.trace", "--trace", "gavel", "--throughputs",
                       TRACES / "simulation_throughputs.json", "--cluster", cluster, "--slot", "6h", "--slots", 200,
                       "--policy", policy, "--json")
        assert run.returncode == 0, run.stderr
        result = json.loads(run.stdout)
        assert 0 < result["totalUtility"] <= result["utilityUpperBound"]
        assert len(result["jobs"]) == len((TRACES / f"{trace}.trace").read_text().splitlines())
        used, gangs = {}, {}
        for row in result["allocations"]:
            used[row["slot"], row["node"]] = used.get((row["slot"], row["node"]), 0) + row["workers"]
            if row["workers"]:
                gangs.setdefault((row["job"], row["slot"]), []).append((row["workers"], row["node"].split("-")[0]))
        assert max(used.values()) <= 4
        least = {job["name"]: job["minWorkers"] for job in result["jobs"]}
        for (job, _), rows in gangs.items():  # a job has its scale factor of workers, on one type
            assert sum(workers for workers, _ in rows) == least[job] and len({kind for _, kind in rows}) == 1
        assert result["measures"]["admitted"] == sum(job["admitted"] for job in result["jobs"])


def job_file(tmp_path, name: str, **changes) -> Path:
    job = yaml.safe_load(EXAMPLE.read_text())["jobs"][3] | {"name": name, "arrival": 0} | changes
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


def new_state(tmp_path) -> list[str]:
    return ["--state", str(tmp_path / "state.json"), "--cluster", str(CLUSTERS / "mixed-small.yaml"), "--slot", "10min",
            "--slots", "200"]


def test_online_calls_at_once_lose_no_job(tmp_path):
    first = schedule(*new_state(tmp_path), "--arrive", job_file(tmp_path, "first"))
    assert first.returncode == 0, first.stderr
    names = [f"job{i}" for i in range(8)]
    calls = [subprocess.Popen([BINARY, "schedule", "--state", tmp_path / "state.json", "--arrive",
                               job_file(tmp_path, name)], stdout=subprocess.DEVNULL) for name in names]
    assert [call.wait() for call in calls] == [0] * len(calls)
    state = json.loads((tmp_path / "state.json").read_text())
    assert sorted(entry["job"]["name"] for entry in state["jobs"]) == sorted(["first", *names])


def test_a_killed_call_leaves_a_state_that_the_next_one_reads(tmp_path):
    assert schedule(*new_state(tmp_path), "--arrive", job_file(tmp_path, "first")).returncode == 0
    draw = random.Random(1)
    decided = {"first"}
    for i in range(25):
        call = subprocess.Popen([BINARY, "schedule", "--state", tmp_path / "state.json", "--arrive",
                                 job_file(tmp_path, f"job{i}")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.uniform(0, 0.06))
        call.send_signal(signal.SIGKILL)
        call.wait()
        now = {entry["job"]["name"] for entry in json.loads((tmp_path / "state.json").read_text())["jobs"]}
        assert now in (decided, decided | {f"job{i}"})
        decided = now
    last = schedule("--state", tmp_path / "state.json", "--arrive", job_file(tmp_path, "last"))
    assert last.returncode == 0, last.stderr


def test_online_jobs_leave_a_node_that_is_down(tmp_path):
    for i in range(4):
        run = schedule(*(new_state(tmp_path) if i == 0 else ["--state", tmp_path / "state.json"]), "--arrive",
                       job_file(tmp_path, f"job{i}", samples=9000000), "--json")
        assert run.returncode == 0, run.stderr
    rows = json.loads(run.stdout)["jobs"][0]["allocations"]
    down = schedule("--state", tmp_path / "state.json", "--at", 1, "--node-down", rows[-1]["node"], "--json")
    assert down.returncode == 0, down.stderr
    moved = json.loads(down.stdout)["jobs"]
    assert moved
    for job in moved:
        assert all(row["node"] != rows[-1]["node"] and row["slot"] >= 1 for row in job["allocations"])
    done = schedule("--state", tmp_path / "state.json", "--complete", "job0")
    assert done.returncode == 0 and "job0 is completed" in done.stdout


def test_a_node_comes_back(tmp_path):
    """Bundled clusters need no path online either; a node that is back takes jobs again."""
    state = tmp_path / "state.json"
    big = {"samples": 90000000, "worker": {"gpu": 4}, "sample_time": {"a100": "1ms"}, "batch": 1, "server": {},
           "min_workers": 1, "utility": {"kind": "constant", "value": 9}}
    first = schedule("--state", state, "--cluster", "mixed-small", "--slot", "10min", "--slots", 200,
                     "--arrive", job_file(tmp_path, "small"))
    assert first.returncode == 0, first.stderr
    node = next(group for group in yaml.safe_load((CLUSTERS / "mixed-small.yaml").read_text())["nodes"]
                if "a100" in group["devices"])
    big["worker"]["gpu"] = node["devices"]["a100"]
    assert schedule("--state", state, "--at", 150, "--node-down", node["name"]).returncode == 0
    away = schedule("--state", state, "--arrive", job_file(tmp_path, "away", **big, epochs=1, arrival=150), "--json")
    assert away.returncode == 0, away.stderr
    assert json.loads(away.stdout)["jobs"][0]["status"] == "declined"
    back = schedule("--state", state, "--at", 151, "--node-up", node["name"])
    assert back.returncode == 0, back.stderr
    again = schedule("--state", state, "--node-up", node["name"])
    assert again.returncode == 1 and "[HP1523]" in again.stderr
    big |= {"samples": 900000, "utility": {"kind": "constant", "value": 9e6}}
    runs = schedule("--state", state, "--arrive", job_file(tmp_path, "runs", **big, epochs=1), "--json")
    assert json.loads(runs.stdout)["jobs"][0]["status"] == "admitted", runs.stdout


def test_names_with_spaces_and_accents_have_folders(tmp_path):
    load = {"slot": "60s", "slots": 20, "jobs": [
        {"name": "Größe 1: 100%", "arrival": 0, "epochs": 1, "samples": 6000, "batch": 8, "model": str(MODELS / "resnet50.onnx"),
         "worker": {"gpu": 1}, "server": {}, "workers_per_server": 8, "utility": {"kind": "constant", "value": 10}}]}
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(yaml.safe_dump(load, allow_unicode=True), encoding="utf-8")
    result = checked(tmp_path, jobs, CLUSTERS / "mixed-small.yaml")
    assert result["jobs"][0]["name"] == "Größe 1: 100%"
    folders = list((tmp_path / "out/jobs").iterdir())
    assert len(folders) == 1 and list(folders[0].glob("slot-*/run.sh"))


def test_tampered_and_stale_states_are_refused(tmp_path):
    assert schedule(*new_state(tmp_path), "--arrive", job_file(tmp_path, "first")).returncode == 0
    state = tmp_path / "state.json"
    before = state.read_text()
    stale = schedule("--state", state, "--cluster", CLUSTERS / "mixed-64.yaml", "--arrive", job_file(tmp_path, "b"))
    assert stale.returncode == 1 and "[HP1521]" in stale.stderr
    state.write_text(before.replace('"slots": 200', '"slots": 300'))
    tampered = schedule("--state", state, "--arrive", job_file(tmp_path, "b"))
    assert tampered.returncode == 1 and "[HP1520]" in tampered.stderr
    state.write_text(before[: len(before) // 2])
    cut = schedule("--state", state, "--arrive", job_file(tmp_path, "b"))
    assert cut.returncode == 1 and "[HP1520]" in cut.stderr


def near_and_far(tmp_path, parameters: float, gpus: int) -> tuple:
    """Jobs file, cluster and profile: two jobs of four equal layers, a node of two GPUs with a fast link and one with
    a slow link."""
    names = ["a", "b", "c", "d"]
    model, profile = tmp_path / "net.layers.json", tmp_path / "net.profile.json"
    model.write_text(json.dumps({
        "schemaVersion": "1.0", "model": "net",
        "layers": [{"name": name, "parameterBytes": parameters, "activationBytes": 1e6} for name in names],
        "tensors": [{"name": a + b, "producer": a, "consumers": [b], "bytesPerSample": 1e5}
                    for a, b in zip(names, names[1:])]}))
    profile.write_text(json.dumps({"schemaVersion": "1.0", "model": "net", "date": "2026-11-26", "entries": [
        {"layer": name, "deviceType": kind, "batch": batch, "forwardSeconds": 0.001 * (1 + batch),
         "backwardSeconds": 0.002 * (1 + batch)} for name in names for kind in ("near", "far") for batch in (1, 64)]}))
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("device_types: {near: {kind: gpu, memory: 16GB}, far: {kind: gpu, memory: 16GB}}\n"
                       "nodes:\n"
                       "- {name: near, devices: {near: 2}, link: nvlink3, host: {cpu: 9, memory: 9GiB}}\n"
                       "- {name: far, devices: {far: 2}, link: {bandwidth: 1GB/s, latency: 5us},"
                       " host: {cpu: 9, memory: 9GiB}}\n"
                       "network: {bandwidth: 1Gbit/s, latency: 5us}\n")
    job = {"epochs": 1, "samples": 40000, "batch": 8, "model": str(model), "worker": {"gpu": gpus}, "server": {},
           "min_workers": 1, "max_nodes": 1, "workers_per_server": 8, "utility": {"kind": "constant", "value": 1}}
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(json.dumps({"slot": "60s", "slots": 400, "jobs": [
        job | {"name": "one", "arrival": 0}, job | {"name": "two", "arrival": 0}]}))
    return jobs, cluster, profile


def test_workers_of_several_gpus_have_the_best_plan_of_their_device_type(tmp_path):
    """Two GPUs with a fast link sum gradients; with a slow one they are a pipeline. The schedule takes the time from
    these plans, and the scripts of its phases find the same ones."""
    jobs, cluster, profile = near_and_far(tmp_path, 40e6, 2)
    result = checked(tmp_path, jobs, cluster, "--policy", "fifo", "--profile", profile)
    for entry in result["jobs"]:
        plans = entry["plans"]
        assert plans["near"]["schedule"] == "data-parallel" and plans["near"]["stages"] == 1
        assert plans["far"]["schedule"] in ("1f1b", "gpipe") and plans["far"]["stages"] == 2
        assert plans["near"]["iterationSeconds"] < plans["far"]["iterationSeconds"]
        for kind, plan in plans.items():
            assert entry["sampleSeconds"][kind] == pytest.approx(plan["iterationSeconds"] / 8)
    assert {row["node"] for row in result["allocations"]} == {"near", "far"}
    for path in (tmp_path / "out").glob("jobs/*/slot-*/run.sh"):
        command = path.read_text().split("||\n")[1].split("\nexec")[0].replace("\\\n", " ")
        run = subprocess.run(["bash", "-c", command], cwd=path.parent, capture_output=True, text=True,
                             env=os.environ | {"heterplan": str(BINARY)})
        assert run.returncode == 0, command + run.stderr
        made = json.loads((path.parent / "plan/plan.json").read_text())
        kind = json.loads((path.parent / "allocation.json").read_text())["nodes"][0]["node"]
        plan = result["jobs"][0]["plans"][kind]
        assert made["schedule"] == plan["schedule"] and len(made["stages"]) == plan["stages"]
        assert made["iterationSeconds"] == pytest.approx(plan["iterationSeconds"], rel=0.02)


def test_a_model_that_is_too_large_for_a_gpu_trains_on_two(tmp_path):
    """12 GB of parameters and as much of gradients; a GPU has 16 GB."""
    jobs, cluster, profile = near_and_far(tmp_path, 3e9, 1)
    run = schedule(jobs, "--cluster", cluster, "--profile", profile, "-o", tmp_path / "one")
    assert run.returncode == 1 and "fits in the memory of no GPU type" in run.stderr
    jobs, cluster, profile = near_and_far(tmp_path, 3e9, 2)
    result = checked(tmp_path, jobs, cluster, "--profile", profile)
    assert all(plan["stages"] == 2 for entry in result["jobs"] for plan in entry["plans"].values())
    assert all(entry["admitted"] for entry in result["jobs"])
    jobs, cluster, profile = near_and_far(tmp_path, 6e9, 2)
    run = schedule(jobs, "--cluster", cluster, "--profile", profile, "-o", tmp_path / "two")
    assert run.returncode == 1 and "no node of the cluster has 2 GPUs of one type that train" in run.stderr


def choice_of_gpus(tmp_path, deadline: int) -> tuple:
    """Like near_and_far(), with one job: a server takes a node's cores, so that a node has one worker of one or two GPUs."""
    jobs, cluster, profile = near_and_far(tmp_path, 40e6, 1)
    load = json.loads(jobs.read_text())
    load["jobs"] = [load["jobs"][0] | {
        "worker": {"gpu": [1, 2]}, "server": {"cpu": 9}, "workers_per_server": 1,
        "utility": {"kind": "deadline", "value": 1, "deadline": deadline}}]
    jobs.write_text(json.dumps(load))
    return jobs, cluster, profile


@pytest.mark.parametrize("policy", ["auto", "pd-ors", "offline"])
def test_the_number_of_gpus_of_a_worker_is_chosen(tmp_path, policy):
    """Two GPUs need about 5 slots, one 9: what a worker of one GPU costs is less, but it may be too late."""
    for deadline, gpus in ((6, {2}), (50, {1, 2}), (3, None)):
        result = checked(tmp_path, *choice_of_gpus(tmp_path, deadline)[:2], "--policy", policy, "--profile",
                         tmp_path / "net.profile.json")  # fmt: skip
        job = result["jobs"][0]
        assert job["admitted"] == (gpus is not None), (deadline, job)
        if gpus:
            assert job["workerGpus"] in gpus
            assert ("plans" in job) == (job["workerGpus"] == 2)
        for folder in (tmp_path / "out").glob("jobs/one/slot-*"):
            plan = json.loads((folder / "plan/plan.json").read_text())
            assert sum(len(r["devices"]) for s in plan["stages"] for r in s["replicas"]) == job["workerGpus"]
        assert bool(list((tmp_path / "out").glob("jobs/one/slot-*/run.sh"))) == job["admitted"]


def test_a_choice_leaves_out_numbers_on_which_the_model_does_not_fit(tmp_path):
    jobs, cluster, profile = near_and_far(tmp_path, 3e9, 1)
    jobs.write_text(jobs.read_text().replace('"worker": {"gpu": 1}', '"worker": {"gpu": [1, 2]}'))
    result = checked(tmp_path, jobs, cluster, "--profile", profile, "--no-plans")
    assert [job["workerGpus"] for job in result["jobs"]] == [2, 2]
    assert not list((tmp_path / "out").glob("jobs/*/slot-*/plan"))


def test_online_decisions_choose_gpus_and_have_plans(tmp_path):
    jobs, cluster, profile = choice_of_gpus(tmp_path, 6)
    state = tmp_path / "state.json"
    run = schedule("--state", state, "--cluster", cluster, "--slot", "60s", "--slots", 400, "--arrive", jobs, "--profile",
                   profile, "-o", tmp_path / "online")  # fmt: skip
    assert run.returncode == 0, run.stderr
    # Later calls know the model, its plans and the choice.
    run = schedule("--state", state, "--at", 2, "--node-down", "near", "--profile", profile, "-o", tmp_path / "online")
    assert run.returncode == 0, run.stderr
    folders = sorted((tmp_path / "online/jobs/one").iterdir())
    assert len(folders) == 2 or "dropped" in run.stdout, run.stdout
    for folder in folders:
        plan = json.loads((folder / "plan/plan.json").read_text())
        assert sum(len(r["devices"]) for s in plan["stages"] for r in s["replicas"]) == 2
        assert json.loads((folder / "allocation.json").read_text())["model"] == str(tmp_path / "net.layers.json")
    written = json.loads((tmp_path / "online/schedule.json").read_text())
    assert written["policy"] == "online" and written["utilityUpperBound"] is None


def test_a_job_without_a_plan_leaves_nothing_behind(tmp_path):
    jobs, cluster, profile = choice_of_gpus(tmp_path, 6)
    (tmp_path / "env").write_text("#!/bin/sh\necho told why; exit 3\n")
    (tmp_path / "env").chmod(0o755)
    run = subprocess.run([BINARY, "schedule", jobs, "--cluster", cluster, "--profile", profile, "-o", tmp_path / "out"],
                         capture_output=True, text=True, env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})  # fmt: skip
    assert run.returncode == 1 and "told why" in run.stderr, run.stderr
    assert "jobs.yaml:" in run.stderr and "[HP1501] no plan for job 'one' on its workers of slot-0000" in run.stderr
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*")) and not list(tmp_path.glob("out*"))
