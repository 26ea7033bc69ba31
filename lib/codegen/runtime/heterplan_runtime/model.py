"""Loads model.py of a plan and fills the tensors of its stages.

A parameter's first values depend on its name and the seed alone, so every cut of the model, and
every replica, starts from the same point. Weights that came with the ONNX file replace them.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections import ChainMap, Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from .double_precision import doubled_source, widened
from .errors import RuntimeFault
from .program import Part, RankProgram, TensorSpec, dtype_of
from .shards import Slicing
from .referred_weights import ReferredTensors, Verified
from .tensorfile import read_tensors


CODE = "model.py"
WHOLE_CODE = "whole_model.py"  # of the whole model, where CODE is that of a shard

TensorTypes = dict[str, tuple[torch.dtype, tuple[int, ...]]]  # type and shape, by name


@dataclass(frozen=True)
class Model:
    """The generated model: its stage classes, inputs and outputs."""

    name: str
    stages: tuple[type[nn.Module], ...]
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]
    bounds: dict[str, int]  # integer inputs are below these
    double: bool = False  # in double precision, whatever its files say
    degrees: tuple[int, ...] = ()  # by stage: devices that share every layer
    verified: Verified = field(default_factory=set, compare=False)  # of the weights that lie elsewhere

    @property
    def prediction(self) -> TensorSpec:
        """The output that the loss takes."""
        return next(iter(self.outputs.values()))

    @property
    def is_whole(self) -> bool:
        """Whether no input has an axis of samples: a run of the model is one."""
        return all(spec.batch_axis is None for spec in self.inputs.values())

    def shared_parameters(self) -> dict[str, tuple[int, ...]]:
        """Parameters that more than one stage uses, with those stages."""
        names = Counter(name for stage in self.stages for name in _specs(stage, "parameters_spec"))
        return {
            name: tuple(
                index
                for index, stage in enumerate(self.stages)
                if name in _specs(stage, "parameters_spec")
            )
            for name in sorted(names)
            if names[name] > 1
        }

    def gathered(self, stage: int) -> tuple[tuple[str, ...], ...]:
        """The parameters that a stage gathers together, where its replicas divide them."""
        return tuple(map(tuple, getattr(self.stages[stage], "gathered", ())))

    def parameter(self, stage: int, name: str) -> tuple[torch.dtype, tuple[int, ...]]:
        """Type and shape of a dense parameter of a stage."""
        shape, dtype, _ = _specs(self.stages[stage], "parameters_spec")[name]
        kind = dtype_of(dtype, "model.py")
        return widened(kind) if self.double else kind, tuple(shape)

    @property
    def is_divided(self) -> bool:
        """Whether several devices share the layers of some stage."""
        return any(degree > 1 for degree in self.degrees)

    def slicings_of(self, stage: int) -> dict[str, Slicing]:
        """The stored tensors of a stage of which each of its shards has a part."""
        return {
            name: Slicing(axis, tuple(segments), tuple(shape), self.degrees[stage])
            for name, (axis, segments, shape) in _specs(self.stages[stage], "slices_spec").items()
        }

    def slicings(self) -> dict[str, Slicing]:
        """The stored tensors of which shards have parts. The first of several stages that use a
        parameter says how it is divided."""
        found: dict[str, Slicing | None] = {}
        for index, stage in enumerate(self.stages):
            own = self.slicings_of(index)
            for attribute in ("parameters_spec", "frozen_spec", "buffers_spec", "constants_spec"):
                for name in _specs(stage, attribute):
                    found.setdefault(name, own.get(name))
        return {name: slicing for name, slicing in found.items() if slicing is not None}

    def trained(self) -> TensorTypes:
        """Types of all tensors that training changes, whichever stage has them: parameters, sparse
        tables and statistics, by their ONNX names. Tensors of which shards have parts are whole."""
        sliced = self.slicings()
        found: TensorTypes = {}
        for stage in self.stages:
            for attribute in ("parameters_spec", "tables_spec", "buffers_spec"):
                for name, (shape, dtype, _) in _specs(stage, attribute).items():
                    whole = sliced[name].shape if name in sliced else tuple(shape)
                    found.setdefault(name, (dtype_of(dtype, "model.py"), whole))
        return found


def _degrees(stated: int | tuple[int, ...], stages: int) -> tuple[int, ...]:
    """By stage; model.py states one number if they are equal."""
    return (stated,) * stages if isinstance(stated, int) else tuple(map(int, stated))


def _specs(stage: type[nn.Module], attribute: str) -> dict[str, Any]:
    return dict(getattr(stage, attribute, {}))


def _tensor_specs(table: dict[str, Any], where: str, double: bool) -> dict[str, TensorSpec]:
    specs = {}
    for name, (dtype, dims) in table.items():
        pairs = tuple((int(per_sample), int(fixed)) for per_sample, fixed in dims)
        kind = dtype_of(dtype, where)
        specs[name] = TensorSpec(name, widened(kind) if double else kind, pairs)
    return specs


def load_model(directory: Path, double: bool = False, file: str = CODE) -> Model:
    """Imports the code that the ranks run; `double`: as a model in double precision."""
    path = directory / file
    if not path.is_file():
        raise RuntimeFault(f"{path}: no such file")
    module = ModuleType("heterplan_model")
    module.__file__ = str(path)
    sys.modules["heterplan_model"] = module
    try:
        text = path.read_text(encoding="utf-8")
        source: Any = doubled_source(text, str(path)) if double else text
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
        return Model(
            name=str(module.MODEL),
            stages=tuple(module.STAGES),
            inputs=_tensor_specs(module.INPUTS, f"{path}: INPUTS", double),
            outputs=_tensor_specs(module.OUTPUTS, f"{path}: OUTPUTS", double),
            bounds={
                name: int(bound) for name, bound in getattr(module, "INPUT_BOUNDS", {}).items()
            },
            double=double,
            degrees=_degrees(getattr(module, "SHARDS", 1), len(module.STAGES)),
        )
    except RuntimeFault:
        raise
    except Exception as error:
        raise RuntimeFault(
            f"{path}: cannot be imported: {type(error).__name__}: {error}"
        ) from error


def load_whole_model(directory: Path, double: bool = False) -> Model:
    """Imports the code of the whole model, which lies beside that of a shard if devices share layers."""
    shared = (directory / WHOLE_CODE).is_file()
    return load_model(directory, double, WHOLE_CODE if shared else CODE)


def stages_with_tables(model: Model) -> list[int]:
    return [i for i, stage in enumerate(model.stages) if _specs(stage, "tables_spec")]


def check_model(model: Model, program: RankProgram) -> None:
    """The model and the program must come from one plan."""
    if len(model.stages) != program.stages:
        raise RuntimeFault(f"model.py has {len(model.stages)} stages; the plan {program.stages}")
    if len(model.degrees) != len(model.stages):
        raise RuntimeFault(f"model.py has {len(model.stages)} stages, of {len(model.degrees)} degrees")
    for part in program.parts:
        degree = model.degrees[part.stage]
        if part.shard >= degree:
            raise RuntimeFault(f"shard {part.shard} of {degree} in model.py")
        outputs = len(model.outputs) if program.is_last(part) else len(part.sends)
        _check_part(model, part, outputs)


def _check_part(model: Model, part: Part, outputs: int) -> None:
    stage: Any = model.stages[part.stage]
    for what, found, wanted in (
        ("receives", len(stage.receives), len(part.receives)),
        ("sends", len(stage.sends), outputs),
    ):
        if found != wanted:
            raise RuntimeFault(
                f"stage {part.stage} {what} {found} tensors in model.py, {wanted} in the plan"
            )
    if part.recompute != tuple(getattr(stage, "segments", ())):
        raise RuntimeFault(f"stage {part.stage} has other segments in model.py than in the plan")
    listed = {name for names in model.gathered(part.stage) for name in names}
    if part.gathers_parameters and listed != _specs(stage, "parameters_spec").keys():
        raise RuntimeFault(f"stage {part.stage} gathers other parameters in model.py than in the plan")
    _check_tables(stage, part)


def _check_tables(stage: type[nn.Module], part: Part) -> None:
    wanted = {table.name: (sum(table.rows), table.columns) for table in part.tables}
    found = {name: tuple(spec[0]) for name, spec in _specs(stage, "tables_spec").items()}
    if found != wanted:
        raise RuntimeFault(f"stage {part.stage} shares other tables in model.py than in the plan")


def seed_of(*parts: object) -> int:
    """A seed that is the same on every machine."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def seed_draws(seed: int, step: int, rank: int) -> None:
    """Seeds the random numbers of a rank in a step (dropout). They depend on these arguments alone,
    so that a resumed run draws the same numbers."""
    torch.manual_seed(seed_of("draws", seed, step, rank))


def initial(name: str, shape: tuple[int, ...], kind: str, seed: int) -> Tensor:
    """First values of a parameter. `kaiming`: uniform within 1/sqrt(fan-in), which is PyTorch's own
    default; larger values explode in residual networks whose batch normalisation is folded away."""
    if kind == "ones":
        return torch.ones(shape)
    if kind == "zeros":
        return torch.zeros(shape)
    generator = torch.Generator().manual_seed(seed_of(name, seed))
    if kind == "normal":
        return torch.randn(shape, generator=generator) * 0.02
    if kind == "kaiming":
        fan_in = math.prod(shape[1:]) if len(shape) > 1 else shape[0] if shape else 1
        bound = 1 / math.sqrt(max(1, fan_in))
        return (torch.rand(shape, generator=generator) * 2 - 1) * bound
    raise RuntimeFault(f"model.py: parameter '{name}' has unknown initialiser '{kind}'")


_BLOCK = 4096  # rows of a table that are initialised together


def table_rows(
    model: Model, index: int, name: str, rows: range, directory: Path, seed: int
) -> Tensor:
    """First values of some rows of a table of a stage, without making the others."""
    rows_of_file = _table_rows(model, index, name, rows, directory, seed)
    return rows_of_file.double() if model.double else rows_of_file


def _table_rows(
    model: Model, index: int, name: str, rows: range, directory: Path, seed: int
) -> Tensor:
    shape, dtype, kind = _specs(model.stages[index], "tables_spec")[name]
    weights, path = _weights(model, index, directory)
    if name in weights:
        if tuple(weights[name].shape) != tuple(shape):
            raise RuntimeFault(f"{path}: '{name}' is {list(weights[name].shape)}, not {shape}")
        return weights[name][rows.start : rows.stop].clone()
    parts = [torch.empty((0, shape[1]))]
    for begin in range(rows.start - rows.start % _BLOCK, rows.stop, _BLOCK):
        block = initial(f"{name}/{begin}", (_BLOCK, shape[1]), kind, seed)
        parts.append(block[max(0, rows.start - begin) : rows.stop - begin])
    return torch.cat(parts).to(dtype_of(dtype, "model.py"))


def _weights(model: Model, index: int, directory: Path) -> tuple[Mapping[str, Tensor], Path]:
    path = directory / "weights" / f"stage-{index:04d}.safetensors"
    copied = read_tensors(path) if path.exists() else {}
    elsewhere = path.with_suffix(".json")
    if not elsewhere.exists():
        return copied, path
    return ChainMap(copied, ReferredTensors(elsewhere, model.verified)), path


def build_stage(
    model: Model,
    index: int,
    directory: Path,
    seed: int,
    device: torch.device,
    whole_tables: bool = False,
    elsewhere: Mapping[str, Callable[[str, Tensor], None]] | None = None,
    shard: int = 0,
) -> nn.Module:
    """The stage on its device, initialised by `seed`, then with the weights of the plan. Sparse
    tables are left out, or parameters like any other. The stage has no parameters that are `elsewhere`:
    their values are told to what takes their place. `shard`: whose parts of sliced tensors it has."""
    stage_class = model.stages[index]
    tables = _specs(stage_class, "tables_spec")
    stage: nn.Module = stage_class(tables=whole_tables) if tables else stage_class()
    weights, path = _weights(model, index, directory)
    tensors = stage.state_dict(keep_vars=True)
    held: dict[str, Any] = {}
    sliced = model.slicings_of(index)

    def own(name: str, whole: Tensor) -> Tensor:
        if name not in sliced:
            return whole
        if tuple(whole.shape) != sliced[name].shape:
            raise RuntimeFault(f"{path}: '{name}' is {list(whole.shape)}, not {list(sliced[name].shape)}")
        return sliced[name].part(whole, shard)

    for attribute in ("parameters_spec", "frozen_spec", "buffers_spec"):
        held |= _specs(stage_class, attribute)
    with torch.no_grad():
        for name, (shape, dtype, kind) in held.items():
            values = weights.get(name)
            if values is None:
                whole_shape = sliced[name].shape if name in sliced else tuple(shape)
                values = initial(name, whole_shape, kind, seed).to(dtype_of(dtype, "model.py"))
            values = own(name, values)
            if elsewhere and name in elsewhere:
                _check_fit(tensors, name, values, path)
                elsewhere[name](name, values)
                _remove(stage, name)
            else:
                _fill(tensors, name, values, path)
        for name, (shape, _, _) in tables.items() if whole_tables else ():
            whole = _table_rows(model, index, name, range(shape[0]), directory, seed)
            _fill(tensors, name, whole, path)
        for name in _specs(stage_class, "constants_spec"):
            if name not in weights:
                raise RuntimeFault(f"{path}: constant '{name}' is missing")
            _fill(tensors, name, own(name, weights[name]), path)
    return (stage.double() if model.double else stage).to(device).train()


def _remove(stage: nn.Module, name: str) -> None:
    """The stage has no such parameter any more."""
    path, _, leaf = name.rpartition(".")
    delattr(stage.get_submodule(path), leaf)


def _check_fit(tensors: dict[str, Any], name: str, values: Tensor, path: Path) -> None:
    if name not in tensors:
        raise RuntimeFault(f"model.py: no tensor '{name}' in the state of its stage")
    target = tensors[name]
    if target.shape != values.shape or target.dtype != values.dtype:
        raise RuntimeFault(
            f"{path}: '{name}' is {values.dtype} {list(values.shape)}; "
            f"the model has {target.dtype} {list(target.shape)}"
        )


def _fill(tensors: dict[str, Any], name: str, values: Tensor, path: Path) -> None:
    _check_fit(tensors, name, values, path)
    tensors[name].copy_(values)
