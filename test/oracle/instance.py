"""A planning problem as plain data, and the files and options by which `heterplan compile` reads it.

Times are seconds, sizes bytes, prices dollars an hour. Nothing here knows what a plan costs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Layer:
    name: str
    parameter_bytes: int = 0
    buffer_bytes: int = 0
    activation_bytes: int = 0  # of a sample
    workspace_bytes: int = 0  # of a sample
    sums: int = 0  # all-reduces within a pass
    sum_bytes: int = 0  # of all of them
    parameters: tuple[str, ...] = ()  # a name that two layers share is one parameter


@dataclass(frozen=True)
class Tensor:
    name: str
    producer: int
    consumers: tuple[int, ...]
    sample_bytes: int = 0
    fixed_bytes: int = 0
    differentiable: bool = True


@dataclass(frozen=True)
class Link:
    bandwidth: int  # bytes a second
    nanoseconds: int  # of latency
    loss: float = 0.0  # of computing, by an all-reduce meanwhile

    @property
    def latency(self) -> float:
        return self.nanoseconds * 1e-9

    def yaml(self) -> dict[str, str | float]:
        loss = {"overlap_loss": self.loss} if self.loss else {}
        return {"bandwidth": f"{self.bandwidth}B/s", "latency": f"{self.nanoseconds}ns", **loss}


@dataclass(frozen=True)
class DeviceType:
    name: str
    memory: int
    price: float


@dataclass(frozen=True)
class NodeGroup:
    name: str
    count: int
    devices: dict[str, int]  # in each node
    link: Link
    zone: str = ""
    speed: dict[str, float | list[float]] = field(default_factory=dict)  # of all devices of a type, or of each

    def speeds(self, kind: str) -> list[float]:
        speed = self.speed.get(kind, 1.0)
        return speed if isinstance(speed, list) else [speed] * self.devices[kind]

    def node_names(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}-{i}" for i in range(self.count)]


@dataclass(frozen=True)
class Times:
    """Times of one pass over a number of samples on one device, by layer."""

    forward: float
    backward: float
    update: float = 0.0
    accumulate: float = 0.0


@dataclass(frozen=True)
class Request:
    batch: int = 1
    objective: str = "throughput"
    optimizer: str = "sgd"
    precision: str = "fp32"
    batch_norm: str = "synchronised"
    schedule: str = "auto"
    micro_batches: int = 0  # 0: searched
    recompute: str = "never"
    shard_state: str = "none"
    overlaps_sums: bool = False
    overlaps_transfers: bool = False
    iteration_model: str = "synchronous-1f1b"
    widths: str = "powers"  # of bursts
    strategy: str = "auto"
    work_limit: int = 0  # 0: the default
    gap: float = 0.0
    min_throughput: float = 0.0
    max_cost_per_hour: float = 0.0
    max_cost_per_million: float = 0.0
    max_cost_per_iteration: float = 0.0
    max_iteration: float = 0.0
    max_memory_fraction: float = 0.0
    amplification_limit: float = 0.0
    max_devices: tuple[tuple[str, int], ...] = ()
    pins: tuple[tuple[str, str], ...] = ()  # layer, device type
    colocations: tuple[tuple[str, ...], ...] = ()
    separations: tuple[tuple[str, ...], ...] = ()

    LIMITS = (
        "min_throughput", "max_cost_per_hour", "max_cost_per_million", "max_cost_per_iteration", "max_iteration",
        "max_memory_fraction", "amplification_limit", "max_devices", "pins", "colocations", "separations",
    )  # fmt: skip

    def in_flight(self, behind: int, micro_batches: int) -> int:
        """Micro-batches that a stage holds, of a pipeline with `behind` stages behind it. If transfers overlap, a stage
        is one ahead of the wire behind it, which is one ahead of the next stage."""
        return min(micro_batches, 1 + behind * (2 if self.overlaps_transfers else 1))

    @property
    def is_exact(self) -> bool:
        """Whether the search ends with the best plan, if it is that good."""
        return self.strategy in ("auto", "label-setting", "exhaustive") and not self.work_limit and not self.gap

    def options(self) -> list[str]:
        words = [
            "--batch", str(self.batch), "--objective", self.objective, "--optimizer", self.optimizer,
            "--precision", self.precision, "--batch-norm", self.batch_norm, "--schedule", self.schedule, "--strategy", self.strategy,
        ]  # fmt: skip
        if self.iteration_model == "synchronous-1f1b":
            words += ["--recompute", self.recompute, "--shard-state", self.shard_state]
            words += ["--overlap-grad-reduce"] if self.overlaps_sums else []
            words += ["--overlap-transfers"] if self.overlaps_transfers else []
        else:
            words += ["--iteration-model", self.iteration_model]
        if self.schedule == "burst":
            words += ["--widths", self.widths]
        if self.micro_batches:
            words += ["--micro-batches", str(self.micro_batches)]
        for option, value in (
            ("--min-throughput", self.min_throughput),
            ("--max-cost-per-hour", self.max_cost_per_hour),
            ("--max-cost-per-million-samples", self.max_cost_per_million),
            ("--max-cost-per-iteration", self.max_cost_per_iteration),
            ("--max-iteration-time", self.max_iteration),
            ("--max-memory-fraction", self.max_memory_fraction),
            ("--amplification-limit", self.amplification_limit),
            ("--work-limit", self.work_limit),
            ("--gap", self.gap),
        ):
            words += [option, repr(value)] if value else []
        for option, values in (
            ("--max-devices", [f"{name}={most}" for name, most in self.max_devices]),
            ("--pin", [f"{layer}={name}" for layer, name in self.pins]),
            ("--colocate", [",".join(names) for names in self.colocations]),
            ("--separate", [",".join(names) for names in self.separations]),
        ):
            words += [option, *values] if values else []
        return words


@dataclass(frozen=True)
class Instance:
    layers: tuple[Layer, ...]
    tensors: tuple[Tensor, ...]
    types: tuple[DeviceType, ...]
    nodes: tuple[NodeGroup, ...]
    network: Link
    zones: dict[str, Link]
    times: dict[tuple[str, str, int], Times]  # by layer, device type and samples: all up to the batch
    request: Request
    links: tuple[tuple[str, str, Link], ...] = ()  # between two places: zones, else nodes, else device types

    def links_lead_somewhere(self) -> bool:
        places = {*self.zones, *(each.name for each in (*self.nodes, *self.types))}
        return all({a, b} <= places for a, b, _ in self.links)

    def layers_file(self) -> dict:
        names = [layer.name for layer in self.layers]
        return {
            "schemaVersion": "1.0",
            "model": "tiny",
            "layers": [
                {
                    "name": layer.name,
                    "parameterBytes": layer.parameter_bytes,
                    "bufferBytes": layer.buffer_bytes,
                    "activationBytes": layer.activation_bytes,
                    "workspaceBytes": layer.workspace_bytes,
                    "inPassAllReduces": layer.sums,
                    "inPassAllReduceBytes": layer.sum_bytes,
                    "parameters": list(layer.parameters),
                }
                for layer in self.layers
            ],
            "tensors": [
                {
                    "name": tensor.name,
                    "producer": names[tensor.producer],
                    "consumers": [names[i] for i in tensor.consumers],
                    "bytesPerSample": tensor.sample_bytes,
                    "fixedBytes": tensor.fixed_bytes,
                    "differentiable": tensor.differentiable,
                }
                for tensor in self.tensors
            ],
        }

    def profile(self) -> dict:
        entries = [
            {
                "layer": layer,
                "deviceType": kind,
                "batch": samples,
                "forwardSeconds": times.forward,
                "backwardSeconds": times.backward,
                "updateSeconds": times.update,
                "accumulateSeconds": times.accumulate,
            }
            for (layer, kind, samples), times in self.times.items()
        ]
        return {"schemaVersion": "1.0", "model": "tiny", "date": "2026-01-31", "entries": entries}

    def cluster_file(self) -> dict:
        nodes = []
        for group in self.nodes:
            node = {"name": group.name, "count": group.count, "devices": group.devices, "link": group.link.yaml()}
            if group.zone:
                node["zone"] = group.zone
            if group.speed:
                node["speed"] = group.speed
            nodes.append(node)
        cluster = {
            "name": "tiny",
            "device_types": {
                each.name: {"kind": "gpu", "memory": f"{each.memory}B", "price_per_hour": each.price}
                for each in self.types
            },
            "nodes": nodes,
            "network": self.network.yaml(),
        }
        if self.links:
            cluster["links"] = [{"between": [a, b], "network": link.yaml()} for a, b, link in self.links]
        if self.zones:
            cluster["zones"] = [{"name": name, "network": link.yaml()} for name, link in self.zones.items()]
        return cluster

    def write(self, folder: Path) -> list[str]:
        """The files, and the arguments of `heterplan compile` for them. YAML reads JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in (
            ("tiny.layers.json", self.layers_file()),
            ("tiny.profile.json", self.profile()),
            ("cluster.yaml", self.cluster_file()),
        ):
            (folder / name).write_text(json.dumps(content, indent=1) + "\n")
        return [
            str(folder / "tiny.layers.json"), "--profile", str(folder / "tiny.profile.json"), "--require-measured",
            "--cluster", str(folder / "cluster.yaml"), *self.request.options(),
        ]  # fmt: skip

    def device_count(self) -> int:
        return sum(group.count * sum(group.devices.values()) for group in self.nodes)
