"""Data sets that are indexed by number, PyTorch's and others (Hugging Face's `datasets`), as a source of
samples: the i-th sample of the training is the same whatever the split, so that shares may be uneven and a
training may go on anywhere."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler, default_collate

from .data import Batch
from .epochs import Epochs
from .errors import RuntimeFault
from .model import Model, seed_of
from .program import TensorSpec

TARGETS = ("targets", "target", "labels", "label")


class MapDataset:
    """Epoch after epoch in one sequence, in which global batches may reach from one into the next, unless
    epochs of so many samples are asked for."""

    def __init__(
        self,
        what: str,
        dataset: Any,
        model: Model,
        epochs: Epochs,
        seed: int,
        shuffle: bool = False,
        collate: Callable[[list[Any]], Any] = default_collate,
    ) -> None:
        """`what`: the option and its text, for errors. `shuffle`: each epoch in an order of its own."""
        self._what, self._dataset, self._model = what, dataset, model
        self._epochs, self._seed = epochs, seed
        self._shuffle, self._collate = shuffle, collate
        self._length = len(dataset)
        if not self._length:
            raise RuntimeFault(f"{what}: the data set is empty")

    def load(self, step: int, samples: range) -> Batch:
        first = self._epochs.first_sample(step)
        items = [self._item(first + sample) for sample in samples]
        try:
            whole = self._model.is_whole and len(items) == 1
            inputs, targets = self._divided(_tensors(items[0]) if whole else self._collate(items))
        except (TypeError, ValueError, RuntimeError) as error:
            raise RuntimeFault(f"{self._what}: samples cannot be put together: {error}") from error
        for name, spec in self._model.inputs.items():
            spec.check(inputs[name], len(samples))
        return Batch(inputs, targets)

    def _item(self, number: int) -> Any:
        epoch, place = divmod(number, self._length)
        if self._shuffle:
            place = int(_order(self._length, self._seed, epoch)[place])
        item = self._dataset[place]
        if isinstance(item, Mapping):  # whose lists default_collate would turn around
            return {name: torch.as_tensor(value) for name, value in item.items()}
        return item

    def _divided(self, batch: Any) -> tuple[dict[str, Tensor], Any]:
        specs = self._model.inputs
        if isinstance(batch, Mapping):
            rest = [name for name in batch if name not in specs]
            keys = [name for name in TARGETS if name in rest] or (rest if len(rest) == 1 else [])
            if not keys or not all(name in batch for name in specs):
                raise RuntimeFault(
                    f"{self._what}: gives {', '.join(map(repr, batch))}; expected the inputs "
                    f"{', '.join(map(repr, specs))} and one of {', '.join(TARGETS)}"
                )
            return {name: _typed(batch[name], spec) for name, spec in specs.items()}, batch[keys[0]]
        if not isinstance(batch, Sequence) or len(batch) != len(specs) + 1:
            raise RuntimeFault(
                f"{self._what}: expected samples of {len(specs)} inputs and a target, in this order, or "
                "dictionaries of them"
            )
        *values, targets = batch
        inputs = zip(specs.items(), values, strict=True)
        return {name: _typed(value, spec) for (name, spec), value in inputs}, targets


def _tensors(item: Any) -> Any:
    """An item that is a sample by itself, with no axis of samples."""
    if isinstance(item, Mapping):
        return item
    return [torch.as_tensor(each) for each in item]


@functools.lru_cache(maxsize=2)
def _order(length: int, seed: int, epoch: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed_of("order", seed, epoch))
    return torch.randperm(length, generator=generator)


def _typed(value: Tensor, spec: TensorSpec) -> Tensor:
    """Numbers of one kind are converted: data sets have floats of Python and integers of NumPy."""
    alike = value.is_floating_point() == spec.dtype.is_floating_point
    return value.to(spec.dtype) if alike else value


def map_dataset(
    what: str, found: Any, model: Model, epochs: Epochs, seed: int
) -> MapDataset | None:
    """The map-style data set of a data set or a DataLoader; None for anything else."""
    if isinstance(found, DataLoader):
        _check_indexed(what, found.dataset)
        if not isinstance(found.sampler, (RandomSampler, SequentialSampler)):
            raise RuntimeFault(f"{what}: the sampler of the DataLoader is not supported; give its data set")
        shuffle = isinstance(found.sampler, RandomSampler)
        return MapDataset(what, found.dataset, model, epochs, seed, shuffle, found.collate_fn)
    if isinstance(found, IterableDataset):
        _check_indexed(what, found)
    if hasattr(found, "__getitem__") and hasattr(found, "__len__"):
        return MapDataset(what, found, model, epochs, seed)
    return None


def _check_indexed(what: str, dataset: Any) -> None:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise RuntimeFault(
            f"{what}: a data set that can only be iterated is not supported: each rank takes samples by "
            "their numbers"
        )
