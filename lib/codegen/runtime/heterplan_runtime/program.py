"""Reads ranks/NNNN.json and plan.json: heterplan.v1.RankProgram and Plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from .errors import RuntimeFault
from .fields import Fields, read_fields
from .instructions import INSTRUCTIONS, InstructionInfo
from .rank_group import RankGroup, read_group

OPTIMIZERS = ("sgd", "momentum", "adam")
SHARDINGS = ("none", "optimizer", "gradients", "parameters")
OF_SHARDED_STATE = {
    "gradientReduceScatter": ("gradients", "parameters"),
    "reduceScatter": ("optimizer",),
    "allGather": ("optimizer", "gradients", "parameters"),
}

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "bool": torch.bool,
}


def dtype_of(name: str, where: str) -> torch.dtype:
    if name not in DTYPES:
        raise RuntimeFault(f"{where}: tensors of type '{name}' are not supported")
    return DTYPES[name]


@dataclass(frozen=True)
class SampleRange:
    """A contiguous run of the samples of one micro-batch, counted from its first sample."""

    begin: int
    count: int

    @property
    def end(self) -> int:
        return self.begin + self.count


@dataclass(frozen=True)
class MicroBatches:
    """`batch` samples in `count` micro-batches, as evenly as they go and the larger ones first.
    Micro-batches of the size of the first one are full; the others have one sample less.
    (lib/ir/MicroBatches.h)"""

    batch: int
    count: int

    def size(self, index: int) -> int:
        return (self.batch + self.count - 1 - index) // self.count

    def first(self, index: int) -> int:
        """The first sample of the global batch that is in micro-batch `index`."""
        full = self.batch - self.count * self.size(self.count - 1)  # but for those of one size
        return index * self.size(self.count - 1) + min(index, full)


@dataclass(frozen=True)
class TensorSpec:
    """Name, type and shape of a tensor; each dimension is `per_sample * samples + fixed`."""

    name: str
    dtype: torch.dtype
    dims: tuple[tuple[int, int], ...]
    differentiable: bool = False
    boundary: int | None = None  # the link that it crosses; None where its stage has one on that side

    def __post_init__(self) -> None:
        growing = [dim for dim in self.dims if dim[0]]
        if len(growing) > 1 or any(fixed for _, fixed in growing):
            raise RuntimeFault(
                f"tensor '{self.name}' cannot be split by sample: its shape "
                f"{[f'{p}N+{f}' for p, f in self.dims]} must have at most one dimension that is a "
                "multiple of the batch"
            )

    @property
    def batch_axis(self) -> int | None:
        """The axis that the samples lie on; None when the tensor is the same for all samples."""
        return next((axis for axis, dim in enumerate(self.dims) if dim[0]), None)

    def shape(self, samples: int) -> tuple[int, ...]:
        return tuple(per_sample * samples + fixed for per_sample, fixed in self.dims)

    def slice(self, tensor: torch.Tensor, own: SampleRange, part: SampleRange) -> torch.Tensor:
        """The rows of `part` in a tensor that holds the samples `own`."""
        axis = self.batch_axis
        if axis is None:
            return tensor
        rows = self.dims[axis][0]
        return tensor.narrow(axis, (part.begin - own.begin) * rows, part.count * rows)

    def restored(self, tensor: torch.Tensor) -> torch.Tensor:
        """In the stated type, where the value was computed in another floating-point type."""
        floating = self.dtype.is_floating_point and tensor.is_floating_point()
        return tensor.to(self.dtype) if floating else tensor

    def check(self, tensor: torch.Tensor, samples: int) -> None:
        """Refuses a tensor that is not what the plan says would be moved."""
        expected = self.shape(samples)
        if tuple(tensor.shape) != expected or tensor.dtype != self.dtype:
            raise RuntimeFault(
                f"tensor '{self.name}' is {tensor.dtype} {list(tensor.shape)}; "
                f"the plan says {self.dtype} {list(expected)}"
            )


@dataclass(frozen=True)
class TableSpec:
    """A sparse table; `rows` of each rank of the stage, ascending: the first holds the first ones."""

    name: str
    dtype: torch.dtype
    columns: int
    rows: tuple[int, ...]

    @property
    def firsts(self) -> tuple[int, ...]:
        """The first row of each rank."""
        return tuple(sum(self.rows[:rank]) for rank in range(len(self.rows)))


@dataclass(frozen=True)
class Instruction:
    op: str
    part: int  # of its rank
    micro_batch: int  # -1: of the whole iteration
    peer: int  # -1: none; may be the rank itself
    boundary: int  # of a transfer: the link of the program
    samples: SampleRange
    group: RankGroup

    @property
    def info(self) -> InstructionInfo:
        return INSTRUCTIONS[self.op]

    @property
    def is_transfer(self) -> bool:
        return self.info.kind in ("send", "receive")

    @property
    def is_gradient(self) -> bool:
        return self.info.phase == "backward"

    def __str__(self) -> str:
        parts = [f"'{self.op}'"]
        if self.micro_batch >= 0:
            parts.append(f"of micro-batch {self.micro_batch}")
        if self.info.kind == "receive":
            parts.append(f"from rank {self.peer}")
        if self.info.kind == "send":
            parts.append(f"to rank {self.peer}")
        return " ".join(parts)


@dataclass(frozen=True)
class Link:
    """Stage `target` follows stage `source`."""

    source: int
    target: int


@dataclass(frozen=True)
class Part:
    """The part of a stage that one rank runs."""

    stage: int
    replica: int
    samples: SampleRange  # of a full micro-batch; of another it may have fewer, or none
    receives: tuple[TensorSpec, ...]
    sends: tuple[TensorSpec, ...]
    tables: tuple[TableSpec, ...]
    recompute: tuple[str, ...] = ()  # first layers of the segments that are computed again
    state_sharding: str = "none"  # one of SHARDINGS
    shard: int = 0  # of the replica, whose devices share every layer

    @property
    def divides_state(self) -> bool:
        """Whether each rank of the stage updates a slice of the parameters only."""
        return self.state_sharding != "none"

    @property
    def scatters_gradients(self) -> bool:
        """Whether each micro-batch sums its gradients, of which each rank keeps a slice."""
        return self.state_sharding == "gradients" or self.gathers_parameters

    @property
    def gathers_parameters(self) -> bool:
        """Whether parameters are slices, which are gathered layer by layer."""
        return self.state_sharding == "parameters"


@dataclass(frozen=True)
class PlannedDevice:
    type: str
    node: str
    index: int  # among those of its type on the node


@dataclass(frozen=True)
class RankProgram:
    model: str
    rank: int
    world_size: int
    stages: int
    device_kind: str
    device: PlannedDevice
    global_batch: int
    micro_batches: int
    optimizer: str
    parts: tuple[Part, ...]
    instructions: tuple[Instruction, ...]
    optimizer_kernels: str = "fused"  # or "for-loop"
    links: tuple[Link, ...] = ()  # in a chain link b leads from stage b to stage b+1
    overlaps_sums: bool = False  # all-reduces begin within the last backward pass of their stage
    overlaps_transfers: bool = False  # messages between stages travel while both compute

    @property
    def shard(self) -> int:
        """The shard that the rank is of its replicas."""
        return self.parts[0].shard

    @property
    def sizes(self) -> MicroBatches:
        return MicroBatches(self.global_batch, self.micro_batches)

    def is_last(self, part: Part) -> bool:
        return part.stage == self.stages - 1

    def instructions_of(self, part: Part) -> list[Instruction]:
        index = self.parts.index(part)
        return [instruction for instruction in self.instructions if instruction.part == index]

    def overlaps_sum_of(self, part: Part) -> bool:
        """Whether the part sums gradients while its last backward pass computes others."""
        return self.overlaps_sums and any(i.op == "allReduce" for i in self.instructions_of(part))

    def sums_beside_passes(self, part: Part) -> bool:
        """Whether sums of gradients may be under way during a pass of the same stage."""
        return part.divides_state or self.overlaps_sum_of(part)

    def samples_of(self, part: Part) -> dict[int, SampleRange]:
        """Samples that the part has of each micro-batch, in its forward passes."""
        return {i.micro_batch: i.samples for i in self.instructions_of(part) if i.op == "forward"}


@dataclass(frozen=True)
class PlanSummary:
    """Fields of plan.json that the runtime needs."""

    predicted_seconds: float
    precision: str
    channels_last: bool
    model_fingerprint: str  # SHA-256 of the ONNX file; "" where the plan does not say
    stage_bytes: tuple[float, ...]  # predicted memory of the largest device of each stage; 0: not known
    stage_overheads: tuple[float, ...] = ()  # parts of those: of the process, once a rank
    most_samples: tuple[tuple[int, ...], ...] = ()  # by stage and replica: of a micro-batch; 0: not known
    batch_norm: str = "synchronised"  # or "local": each replica by its own samples


def _device(fields: Fields) -> PlannedDevice:
    return PlannedDevice(fields.text("type"), fields.text("node"), fields.integer("index"))


def _range(fields: Fields) -> SampleRange:
    return SampleRange(fields.integer("begin"), fields.integer("count"))


def _tensor(fields: Fields, linked: bool) -> TensorSpec:
    name = fields.text("name")
    dtype = dtype_of(fields.text("type", default="float32"), fields.where)
    dims = tuple((d.integer("perSample"), d.integer("fixed")) for d in fields.objects("shape"))
    boundary = fields.integer("boundary") if linked else None
    return TensorSpec(name, dtype, dims, fields.flag("differentiable"), boundary)


def _links(fields: Fields, stages: int) -> tuple[Link, ...]:
    """None are stated where each stage follows the one before."""
    links = [Link(item.integer("from"), item.integer("to")) for item in fields.objects("links")]
    for index, link in enumerate(links):
        if not link.source < link.target < stages:
            raise RuntimeFault(f"{fields.where}: links[{index}] leads to no later stage")
    return tuple(links) or tuple(Link(stage, stage + 1) for stage in range(stages - 1))


def _table(fields: Fields) -> TableSpec:
    name = fields.text("name")
    dtype = dtype_of(fields.text("type", default="float32"), fields.where)
    return TableSpec(name, dtype, fields.integer("columns", least=1), fields.integers("rows"))


def _part(fields: Fields, linked: bool) -> Part:
    """`linked`: the program states links, and the tensors which of them they cross."""
    return Part(
        stage=fields.integer("stage"),
        replica=fields.integer("replica"),
        samples=_range(fields.object("samples")),
        receives=tuple(_tensor(item, linked) for item in fields.objects("receives")),
        sends=tuple(_tensor(item, linked) for item in fields.objects("sends")),
        tables=tuple(_table(item) for item in fields.objects("tables")),
        recompute=fields.texts("recompute"),
        state_sharding=fields.text("stateSharding", SHARDINGS, default="none"),
        shard=fields.integer("shard"),
    )


def _instruction(fields: Fields, world_size: int, micro_batches: int) -> Instruction:
    op = fields.text("op", tuple(INSTRUCTIONS))
    instruction = Instruction(
        op=op,
        part=fields.integer("part"),
        micro_batch=fields.integer("microBatch", -1, least=-1),
        peer=fields.integer("peer", -1, least=-1),
        boundary=fields.integer("boundary", -1, least=-1),
        samples=_range(fields.object("samples")),
        group=read_group(fields, world_size),
    )
    micro_batch, whole = instruction.micro_batch, instruction.info.phase == "iteration"
    if micro_batch >= micro_batches or (micro_batch < 0 and not whole):
        raise RuntimeFault(f"{fields.where}: '{op}' needs a micro-batch below {micro_batches}")
    if instruction.is_transfer and not 0 <= instruction.peer < world_size:
        raise RuntimeFault(f"{fields.where}: '{op}' needs a peer below {world_size}")
    return instruction


def _path_of(directory: Path, rank: int) -> Path:
    return directory / "ranks" / f"{rank:04d}.json"


def read_world_size(directory: Path) -> int:
    """Returns the number of ranks of the plan."""
    return read_fields(_path_of(directory, 0)).integer("worldSize", least=1)


def read_planned_device(directory: Path, rank: int) -> PlannedDevice:
    return _device(read_fields(_path_of(directory, rank)).object("device"))


def read_rank_program(directory: Path, rank: int) -> RankProgram:
    """Reads and checks the program of one rank."""
    path = _path_of(directory, rank)
    fields = read_fields(path)
    world_size = fields.integer("worldSize", least=1)
    micro_batches = fields.integer("microBatches", least=1)
    stages, linked = fields.integer("stages", least=1), bool(fields.objects("links"))
    program = RankProgram(
        model=fields.text("model"),
        rank=fields.integer("rank"),
        world_size=world_size,
        stages=stages,
        device_kind=fields.text("deviceKind", ("cpu", "gpu"), default="cpu"),
        device=_device(fields.object("device")),
        global_batch=fields.integer("globalBatch", least=1),
        micro_batches=micro_batches,
        optimizer=fields.text("optimizer", OPTIMIZERS, default="sgd"),
        optimizer_kernels=fields.text("optimizerKernels", ("fused", "for-loop"), default="fused"),
        parts=tuple(_part(item, linked) for item in fields.objects("parts")),
        instructions=tuple(
            _instruction(item, world_size, micro_batches) for item in fields.objects("instructions")
        ),
        links=_links(fields, stages),
        overlaps_sums=fields.flag("overlapGradReduce"),
        overlaps_transfers=fields.flag("overlapTransfers"),
    )
    _check(program, path, rank)
    return program


def _check(program: RankProgram, path: Path, rank: int) -> None:
    if program.rank != rank:
        raise RuntimeFault(f"{path}: holds the program of rank {program.rank}")
    if program.micro_batches > program.global_batch:
        raise RuntimeFault(
            f"{path}: {program.micro_batches} microBatches of a globalBatch of {program.global_batch}"
        )
    if not program.parts:
        raise RuntimeFault(f"{path}: the rank has no part of any stage")
    if len({part.shard for part in program.parts}) > 1:
        raise RuntimeFault(f"{path}: the parts are of unlike shards")
    stages = [part.stage for part in program.parts]
    if stages != sorted(set(stages)):
        raise RuntimeFault(f"{path}: the parts are of stages {stages}, which do not ascend")
    for part in program.parts:
        _check_part(program, part, path)
    own = [program.samples_of(part) for part in program.parts]
    for index, instruction in enumerate(program.instructions):
        _check_instruction(program, instruction, own, f"{path}: instructions[{index}]")
    for part in program.parts:
        _check_tables(program, part, path)


def _check_part(program: RankProgram, part: Part, path: Path) -> None:
    if part.stage >= program.stages:
        raise RuntimeFault(f"{path}: stage {part.stage} of {program.stages}")
    own = part.samples
    if not own.count or own.end > program.sizes.size(0):
        raise RuntimeFault(
            f"{path}: samples {own.begin}..{own.end} do not lie in a micro-batch "
            f"of {program.sizes.size(0)}"
        )


def _check_instruction(
    program: RankProgram,
    instruction: Instruction,
    samples: list[dict[int, SampleRange]],
    where: str,
) -> None:
    """`samples`: by part, of each micro-batch."""
    if instruction.part >= len(program.parts):
        raise RuntimeFault(f"{where}: part {instruction.part} of {len(program.parts)}")
    part = program.parts[instruction.part]
    shardings = OF_SHARDED_STATE.get(instruction.op, SHARDINGS)
    if part.state_sharding not in shardings:
        raise RuntimeFault(
            f"{where}: '{instruction.op}' needs stateSharding {' or '.join(shardings)}, not "
            f"{part.state_sharding}"
        )
    if instruction.info.phase == "iteration":
        return
    own = samples[instruction.part].get(instruction.micro_batch, part.samples)
    moved = instruction.samples
    if instruction.info.kind == "compute":
        _check_pass(program, part, instruction, own, where)
    if not instruction.is_transfer:
        return
    if not own.begin <= moved.begin < moved.end <= own.end:
        raise RuntimeFault(
            f"{where}: samples {moved.begin}..{moved.end} are not part of "
            f"those of the rank, {own.begin}..{own.end}"
        )
    to_next = instruction.is_gradient == (instruction.info.kind == "receive")
    link = program.links[instruction.boundary] if 0 <= instruction.boundary < len(program.links) else None
    if link is None or (link.source if to_next else link.target) != part.stage:
        raise RuntimeFault(
            f"{where}: '{instruction.op}' of stage {part.stage} names boundary "
            f"{instruction.boundary}"
        )


def _check_pass(
    program: RankProgram, part: Part, instruction: Instruction, own: SampleRange, where: str
) -> None:
    size = program.sizes.size(instruction.micro_batch)
    full = size == program.sizes.size(0)
    fits = own == part.samples if full else own.count <= part.samples.count and own.end <= size
    if instruction.samples != own or not fits:
        raise RuntimeFault(
            f"{where}: samples {instruction.samples.begin}..{instruction.samples.end} are not those "
            f"of the rank in a micro-batch of {size}"
        )


def _check_tables(program: RankProgram, part: Part, path: Path) -> None:
    lookups = {
        instruction.group
        for instruction in program.instructions_of(part)
        if instruction.info.kind == "collective" and instruction.micro_batch >= 0
    }
    for table in part.tables:
        if any(len(group) != len(table.rows) or program.rank not in group for group in lookups):
            raise RuntimeFault(
                f"{path}: table '{table.name}' has {len(table.rows)} shards; its lookups are of "
                "another group"
            )


def read_plan(directory: Path) -> PlanSummary:
    fields = read_fields(directory / "plan.json")
    stages = fields.objects("stages")
    return PlanSummary(
        predicted_seconds=fields.number("expectedSeconds", default=fields.number("iterationSeconds")),
        precision=fields.text("precision", ("fp32", "tf32", "bf16", "fp16"), default="fp32"),
        channels_last=fields.text(
            "memoryFormat", ("channels-first", "channels-last"), default="channels-first"
        ) == "channels-last",
        model_fingerprint=fields.text("modelFingerprint"),
        stage_bytes=tuple(stage.number("memoryBytes") for stage in stages),
        stage_overheads=tuple(stage.number("overheadBytes") for stage in stages),
        most_samples=tuple(
            tuple(replica.integer("mostSamples") for replica in stage.objects("replicas"))
            for stage in stages
        ),
        batch_norm=fields.text("batchNorm", ("synchronised", "local"), default="synchronised"),
    )
