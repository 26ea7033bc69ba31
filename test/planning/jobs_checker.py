"""An independent check of schedule.json, by plain arithmetic on the jobs and cluster files.

It follows docs/schedule.md and shares nothing with the program. GPUs, cores and memory of nodes come
from the cluster file and, for CPU types, from the catalogue.
"""
import json
import math
from pathlib import Path

import yaml

SIZES = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
RATES = {k + "/s": v for k, v in SIZES.items()} | {
    "bit/s": 1 / 8, "Kbit/s": 1e3 / 8, "Mbit/s": 1e6 / 8, "Gbit/s": 1e9 / 8, "Tbit/s": 1e12 / 8}
TIMES = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60, "h": 3600}


def quantity(text, units):
    unit = max((u for u in units if str(text).endswith(u)), key=len)
    return float(str(text)[: -len(unit)]) * units[unit]


class Cluster:
    def __init__(self, path, profiles):
        self.file = yaml.safe_load(Path(path).read_text())
        self.profiles = Path(profiles)
        self.types = {name: self.resolved(facts) for name, facts in self.file["device_types"].items()}
        self.nodes = {}
        for group in self.file["nodes"]:
            count = group.get("count", 1)
            for i in range(count):
                self.nodes[group["name"] if count == 1 else f"{group['name']}-{i}"] = group

    def resolved(self, facts):
        known = {}
        if "catalogue" in facts:
            known = yaml.safe_load((self.profiles / "devices" / f"{facts['catalogue']}.yaml").read_text())
        return known | facts

    def bandwidth_of(self, link):
        if isinstance(link, str):
            link = yaml.safe_load((self.profiles / "links" / f"{link}.yaml").read_text())
        return quantity(link["bandwidth"], RATES)

    def gpus(self, node):
        return {t: n for t, n in self.nodes[node]["devices"].items() if self.types[t]["kind"] == "gpu"}

    def has(self, node, resource):
        group = self.nodes[node]
        host = group.get("host", {})
        cpus = {t: n for t, n in group["devices"].items() if self.types[t]["kind"] == "cpu"}
        if resource == "cpu":
            return host.get("cpu", sum(n * self.types[t].get("cores", 0) for t, n in cpus.items()))
        if "memory" in host:
            return quantity(host["memory"], SIZES)
        return sum(n * quantity(self.types[t]["memory"], SIZES) for t, n in cpus.items())

    def bandwidth(self, nodes):
        if len(nodes) == 1:
            return self.bandwidth_of(self.nodes[next(iter(nodes))].get("link", "pcie3"))
        zones = {self.nodes[n].get("zone", "") for n in nodes}
        for zone in self.file.get("zones", []):
            if len(zones) == 1 and zones <= {zone["name"], ""} and "network" in zone:
                return self.bandwidth_of(zone["network"])
        return self.bandwidth_of(self.file["network"])


def demand(job, role, resource):
    value = job[role].get(resource, 0)
    return quantity(value, SIZES) if resource == "memory" and value else float(value)


def utility(facts, delay):
    kind, value = facts["kind"], facts["value"]
    if kind == "sigmoid":
        return value / (1 + math.exp(min(700, facts["decay"] * (delay - facts["target"]))))
    if kind == "linear":
        return value * max(0, 1 - delay / facts["deadline"])
    if kind == "deadline":
        return value if delay <= facts["deadline"] else 0
    return value


def servers_needed(workers, ratio):
    return math.ceil(workers / ratio - 1e-12)


def cpu_types(cluster, node):
    return tuple(sorted(t for t in cluster.nodes[node]["devices"] if cluster.types[t]["kind"] == "cpu"))


def amounts(cluster, stated):
    """Quotas of a queue by resource: "cpu", "memory", "gpu", and "gpu TYPE"."""
    if isinstance(stated, float):
        sums = {}
        for node in cluster.nodes:
            sums["cpu"] = sums.get("cpu", 0) + cluster.has(node, "cpu")
            sums["memory"] = sums.get("memory", 0) + math.floor(cluster.has(node, "memory"))
            for kind, count in cluster.gpus(node).items():
                sums[f"gpu {kind}"] = sums.get(f"gpu {kind}", 0) + count
        parts = {what: math.floor(amount * stated * (1 + 1e-9)) for what, amount in sums.items()}
        return parts | {"cpu": math.floor(1000 * sums["cpu"] * stated * (1 + 1e-9)) / 1000}
    named = {what if what in ("cpu", "memory", "gpu") else f"gpu {what}": amount for what, amount in stated.items()}
    return named | ({"memory": quantity(named["memory"], SIZES)} if "memory" in named else {})


def check_quotas(rows, load, jobs, cluster):
    used = {}
    for row in rows:
        job = jobs[row["job"]]
        for resource in ("cpu", "memory", "gpu"):
            amount = row["workers"] * demand(job, "worker", resource) + row["servers"] * demand(job, "server", resource)
            kinds = [resource]
            if resource == "gpu":
                kinds.append("gpu " + row.get("deviceType", next(iter(cluster.gpus(row["node"])), "")))
            for what in kinds:
                key = (row["slot"], job.get("queue"), what)
                used[key] = used.get(key, 0) + amount
    cohorts = {}
    for queue in load.get("queues", []):
        quota = amounts(cluster, queue["quota"] if "quota" in queue else float(queue["share"]))
        borrow = amounts(cluster, queue.get("borrow", {}))
        cohort = queue.get("cohort")
        for what, nominal in quota.items():
            most = nominal + (borrow.get(what, math.inf) if cohort else 0)
            for slot in range(load["slots"]):
                assert used.get((slot, queue["name"], what), 0) <= most * (1 + 1e-9), (slot, queue["name"], what)
            if cohort:
                cohorts.setdefault((cohort, what), []).append((queue["name"], nominal))
    for (cohort, what), members in cohorts.items():
        for slot in range(load["slots"]):
            taken = sum(used.get((slot, name, what), 0) for name, _ in members)
            assert taken <= sum(nominal for _, nominal in members) * (1 + 1e-9), (slot, cohort, what)


def with_chosen_worker(job, entry):
    """The job with the number of GPUs that the schedule chose; cores and memory are then those of each GPU."""
    worker = job["worker"]
    if not isinstance(worker.get("gpu"), list):
        assert "workerGpus" not in entry, entry
        return job
    count = entry["workerGpus"]
    assert count in worker["gpu"], entry
    memory = quantity(worker["memory"], SIZES) * count if "memory" in worker else 0
    return job | {"worker": {"gpu": count, "cpu": worker.get("cpu", 0) * count, "memory": f"{memory:.0f}B"}}


def check(schedule_path, jobs_path, cluster_path, profiles):
    """Asserts that the schedule holds; returns it."""
    schedule = json.loads(Path(schedule_path).read_text())
    load = yaml.safe_load(Path(jobs_path).read_text())
    cluster = Cluster(cluster_path, profiles)
    slot_seconds = quantity(load["slot"], TIMES)
    assert [j["name"] for j in schedule["jobs"]] == [j["name"] for j in load["jobs"]]
    jobs = {job["name"]: with_chosen_worker(job, entry) for job, entry in zip(load["jobs"], schedule["jobs"])}

    used, parts, seen = {}, {}, set()
    for row in schedule["allocations"]:
        job, node, slot = jobs[row["job"]], row["node"], row["slot"]
        gpus = cluster.gpus(node)
        assert (len(gpus) > 1) == ("deviceType" in row), row
        kind = row.get("deviceType", next(iter(gpus), None))
        key = (row["job"], slot, node, kind)
        assert key not in seen, row
        seen.add(key)
        for role in ("workers", "servers"):
            assert isinstance(row[role], int) and row[role] >= 0, row
        assert row["workers"] + row["servers"] > 0, row
        assert job["arrival"] <= slot < load["slots"], row
        for resource in ("cpu", "memory", "gpu"):
            amount = row["workers"] * demand(job, "worker", resource) + row["servers"] * demand(job, "server", resource)
            at = (slot, node, resource if resource != "gpu" else f"gpu {kind}")
            used[at] = used.get(at, 0) + amount
        parts.setdefault(row["job"], {}).setdefault(slot, []).append((node, kind, row["workers"], row["servers"]))
    for (slot, node, resource), amount in used.items():
        has = cluster.gpus(node).get(resource[4:], 0) if resource.startswith("gpu ") else cluster.has(node, resource)
        assert amount <= has * (1 + 1e-9), (slot, node, resource, amount, has)

    check_quotas(schedule["allocations"], load, jobs, cluster)

    total, last = 0, 0
    for entry in schedule["jobs"]:
        job = jobs[entry["name"]]
        slots = parts.get(entry["name"], {})
        assert entry["admitted"] == bool(slots), entry
        if not slots:
            assert entry["utility"] == 0 and entry["start"] is None and entry["completion"] is None
            continue
        work, done = job["epochs"] * job["samples"], 0
        restart = job.get("restart", 0)
        restart = restart["seconds"] if isinstance(restart, dict) else quantity(restart, TIMES) if restart else 0
        for slot in sorted(slots):
            same = slot - 1 in slots and sorted(slots[slot - 1]) == sorted(slots[slot])
            assert same or job.get("preemptible", True) or slot == min(slots), (entry, slot)
            share = 1 if same else 1 - restart / slot_seconds
            assert len({row[0] for row in slots[slot]}) <= job.get("max_nodes", math.inf), (entry, slot)
            on_gpus = demand(job, "worker", "gpu") > 0
            kinds = {row[1] if on_gpus else cpu_types(cluster, row[0]) for row in slots[slot] if row[2]}
            assert len(kinds) == 1 or not job.get("same_type", "model" in job), (entry, slot)
            assert done < work * (1 - 1e-9), (entry, slot)
            workers = sum(row[2] for row in slots[slot])
            servers = sum(row[3] for row in slots[slot])
            assert entry["minWorkers"] >= job.get("min_workers", 1)
            assert entry["minWorkers"] <= workers <= job["batch"]
            assert servers >= servers_needed(workers, job["workers_per_server"])
            speed = cluster.bandwidth({row[0] for row in slots[slot]})
            exchange = job["workers_per_server"] / job["batch"] * 2 * entry["gradientBytes"] / speed
            for node, kind, count, _ in slots[slot]:
                seconds = entry["sampleSeconds"]
                if count and isinstance(seconds, dict):
                    cpus = [t for t in cluster.nodes[node]["devices"] if cluster.types[t]["kind"] == "cpu"]
                    names = [kind] if demand(job, "worker", "gpu") else cpus
                    seconds = max(seconds[name] for name in names)
                done += share * count * slot_seconds / (seconds + exchange) if count else 0
        assert done >= work * (1 - 1e-9), (entry, done, work)
        assert entry["start"] == min(slots) and entry["completion"] == max(slots)
        deadline = job.get("deadline", {})
        if deadline.get("class") == "hard":
            assert max(slots) <= job["arrival"] + deadline["slots"], entry
        for name in job.get("after", []):
            assert name in parts and max(parts[name]) < min(slots), (entry, name)
        worth = utility(job["utility"], max(slots) - job["arrival"])
        assert math.isclose(entry["utility"], worth, rel_tol=1e-9, abs_tol=1e-300)
        total += worth
        last = max(last, max(slots) + 1)
    assert math.isclose(schedule["totalUtility"], total, rel_tol=1e-9, abs_tol=1e-9)
    assert schedule["makespan"] == last
    assert schedule["utilityUpperBound"] >= total * (1 - 1e-12)
    assert math.isfinite(schedule["utilityUpperBound"])
    return schedule
