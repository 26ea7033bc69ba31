"""Samples made ahead of the steps that take them, by worker processes of each rank."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import DataLoader, Dataset

from .data import Batch, DataSource
from .errors import RuntimeFault
from .process import end_with_parent

Key = tuple[int, int, int]  # step, and the samples from one number up to another

STEPS_AHEAD = 2


class _Samples(Dataset[Any]):
    def __init__(self, source: DataSource) -> None:
        self._source = source

    def __getitem__(self, key: Key) -> Batch | RuntimeFault:
        """A fault is handed over like a batch: raised here it would become a stack trace."""
        step, begin, end = key
        try:
            return self._source.load(step, range(begin, end))
        except RuntimeFault as fault:
            return fault


class _Keys:
    """The keys of all steps, in the order in which they are requested."""

    def __init__(self, steps: range, ranges: Sequence[range]) -> None:
        self._steps, self._ranges = steps, ranges

    def __iter__(self) -> Iterator[Key]:
        for step in self._steps:
            for samples in self._ranges:
                yield step, samples.start, samples.stop

    def __len__(self) -> int:
        return len(self._steps) * len(self._ranges)


def _unchanged(batch: Any) -> Any:
    return batch


def _begin_worker(number: int) -> None:
    """It ends with its rank, or when that asks it to, and not before: torchrun signals a rank and its workers
    alike, and the rank may have a step to end and a checkpoint to save."""
    del number
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "sigwaitinfo"):  # which tells who has sent a signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_when_asked, args=(os.getppid(),), daemon=True).start()


def _end_when_asked(rank: int) -> None:
    """`rank`: the process that this is a worker of."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != rank:
        pass
    os._exit(0)


class PrefetchedData:
    """The samples of a source; those that begin() has announced come from its workers, others are made
    at once."""

    def __init__(
        self, source: DataSource, workers: int, timeout: float, pinned: bool = False
    ) -> None:
        """`timeout`: seconds that a worker may take for a micro-batch. `pinned`: for a GPU."""
        self._source, self._workers, self._timeout = source, workers, timeout
        self._pinned = pinned
        self._keys: Iterator[Key] = iter(())
        self._next: Key | None = None
        self._batches: Iterator[Batch | RuntimeFault] = iter(())

    def begin(self, steps: range, ranges: Sequence[range]) -> None:
        """The samples `ranges` of each of these steps will be asked for, in this order."""
        if not self._workers or not ranges or not steps:
            return
        keys = _Keys(steps, ranges)
        ahead = -(-STEPS_AHEAD * len(ranges) // self._workers)
        loader: DataLoader[Any] = DataLoader(
            _Samples(self._source), batch_size=None, sampler=keys, num_workers=self._workers,
            prefetch_factor=ahead, timeout=self._timeout, collate_fn=_unchanged,
            worker_init_fn=_begin_worker, pin_memory=self._pinned,
        )  # fmt: skip
        self._keys = iter(keys)
        self._next = next(self._keys, None)
        self._batches = iter(loader)

    def load(self, step: int, samples: range) -> Batch:
        if self._next != (step, samples.start, samples.stop):
            return self._source.load(step, samples)
        self._next = next(self._keys, None)
        try:
            found = next(self._batches)
        except RuntimeError as error:  # a worker is gone, or takes too long
            raise RuntimeFault(f"--data: {str(error).splitlines()[0]}") from error
        if isinstance(found, RuntimeFault):
            raise found
        return found
