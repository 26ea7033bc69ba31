"""The metadata of an ONNX file in which a module states its tensors: the truth for the import.

`heterplan.parameters` is a JSON object by the name of the initializer; docs/formats.md lists the fields.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import HeterplanError

if TYPE_CHECKING:
    from torch import Tensor, nn

KEY, VERSION_KEY, VERSION = "heterplan.parameters", "heterplan.parameters.version", "1"


@dataclass(frozen=True)
class _Held:
    """A tensor of the module: the first name that the module has for it, and all of them."""

    name: str
    names: tuple[str, ...]
    tensor: Tensor
    is_buffer: bool

    @property
    def is_trained(self) -> bool:
        return not self.is_buffer and self.tensor.requires_grad


def _held(module: nn.Module) -> list[_Held]:
    """Each tensor once, by identity: two names of one parameter are a tie."""
    names: dict[int, list[str]] = {}
    tensors: dict[int, tuple[Tensor, bool]] = {}
    kinds: tuple[tuple[Any, bool], ...] = ((module.named_parameters, False), (module.named_buffers, True))
    for listed, is_buffer in kinds:
        for name, tensor in listed(remove_duplicate=False):
            names.setdefault(id(tensor), []).append(name)
            tensors[id(tensor)] = tensor, is_buffer
    return [_Held(all_[0], tuple(all_), *tensors[key]) for key, all_ in names.items()]


def _hash(tensor: Tensor) -> str | None:
    """SHA-256 of the values as a file stores them; None if there are none."""
    import torch

    if tensor.is_meta:
        return None
    values = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(values.view(torch.uint8).numpy().tobytes()).hexdigest()


def _paddings(module: nn.Module) -> dict[int, int]:
    """The padding row of each table that has one, by the identity of the table. ONNX has no word for it."""
    import torch

    rows: dict[int, int] = {}
    for name, each in module.named_modules():
        if not isinstance(each, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            continue
        if each.scale_grad_by_freq:
            raise HeterplanError(
                f"'{name}' scales gradients by how often a row is read (scale_grad_by_freq), which ONNX cannot say; "
                "export the module without it"
            )
        if each.padding_idx is not None and isinstance(each, torch.nn.Embedding):
            rows[id(each.weight)] = each.padding_idx
    return rows


def _make_initializers(model: Any, names: set[str]) -> None:
    """Turns inputs into initializers whose values would lie in a file that is not there."""
    import math

    import onnx

    kept = []
    for value in model.graph.input:
        if value.name not in names:
            kept.append(value)
            continue
        tensor = model.graph.initializer.add()
        tensor.name, tensor.data_type = value.name, value.type.tensor_type.elem_type
        tensor.dims.extend(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        size = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize * math.prod(tensor.dims)
        for key, text in (("location", "absent.weights"), ("offset", "0"), ("length", str(size))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, text
    inputs = [each.SerializeToString() for each in kept]
    del model.graph.input[:]
    for each in inputs:
        model.graph.input.add().ParseFromString(each)


def state_parameters(
    path: str | os.PathLike[str],
    module: nn.Module,
    has_values: bool = True,
    reached: set[str] | None = None,
) -> None:
    """Writes what `module` says into the ONNX file at `path`, which was exported from it; without values
    where `has_values` is False. `reached`: names of the parameters that gradients reach; None: all of them.

    Raises HeterplanError where a trained parameter of the module is not in the file although the module
    computes with it: the file would train something else.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)
    held = {name: each for each in _held(module) for name in each.names}
    if not has_values:
        _make_initializers(model, set(held))
    given = [*model.graph.initializer, *model.graph.input]
    found = {each.name: held[each.name] for each in given if each.name in held}
    used = set(found.values()) | {each for each in held.values() if reached is not None and reached.isdisjoint(each.names)}
    _refuse_lost(path, module, used, model)
    paddings = _paddings(module)
    entries: dict[str, dict[str, object]] = {
        name: {
            "module": name,
            "kind": "buffer" if each.is_buffer else "parameter",
            "trained": each.is_trained and (reached is None or not reached.isdisjoint(each.names)),
            "tied": each.name if len(each.names) > 1 else None,
            "shape": list(each.tensor.shape),
            "hash": _hash(each.tensor) if has_values else None,
        }
        for name, each in found.items()
    }
    for name, each in found.items():
        if id(each.tensor) in paddings:
            entries[name]["padding"] = paddings[id(each.tensor)]
    kept = [entry for entry in model.metadata_props if entry.key not in (KEY, VERSION_KEY)]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    for key, value in ((KEY, json.dumps(entries)), (VERSION_KEY, VERSION)):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(model, path)


def _refuse_lost(
    path: str | os.PathLike[str], module: nn.Module, found: set[_Held], model: Any
) -> None:
    """An exporter may compute with a parameter and leave the result in the file. A parameter that the module
    does not use is not in the file either: only what is left over tells them apart."""
    lost = [each.name for each in _held(module) if each.is_trained and each not in found]
    known = {name for each in _held(module) for name in each.names}
    made = [
        each.name
        for each in model.graph.initializer
        if each.name not in known and each.data_type in (1, 10, 11, 16) and len(each.dims) > 0
    ]
    if lost and made:
        raise HeterplanError(
            f"{os.fspath(path)}: the exporter has computed '{made[0]}' from parameters of the module, and "
            f"'{lost[0]}'"
            + (f" and {len(lost) - 1} more are" if len(lost) > 1 else " is")
            + " not in the file: they could not be trained. Compute with parameters in forward(), not before it"
        )
