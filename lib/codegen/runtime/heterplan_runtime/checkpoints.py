"""Checkpoints of a run: when they are written, by whom, and which one a run begins with.

All ranks call alike. Each copies its pieces between two steps and writes them while the next steps are
computed; when all have written, rank 0 makes the checkpoint complete.
"""

from __future__ import annotations

import fcntl
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from torch import Tensor

from .checkpoint import (
    BEGUN, Checkpoint, Facts, Held, Piece, WrittenFile, commit, complete_ones, keep_newest, read_holders,
    remove_begun, write_holders, write_part,
)  # fmt: skip
from .communication import Communicator
from .errors import RuntimeFault
from .model import TensorTypes
from .optimizer_state import MOMENTS
from .part import PartExecution
from .shards import Slicing


@dataclass(frozen=True)
class Resumed:
    """The bytes of parameters and of the state of the optimizer that ranks took from a checkpoint, and those of
    them that their devices did not hold when it was written."""

    held: float = 0
    moved: float = 0


@dataclass(frozen=True)
class Trained:
    """The state that checkpoints save and restore: the parts of this rank, and for the whole model
    the tensors that training changes and the parameters that several stages use."""

    parts: tuple[PartExecution, ...]
    types: TensorTypes
    shared: Mapping[str, tuple[int, ...]]
    optimizer: str
    device: str = ""  # that the plan names for this rank
    slicings: Mapping[str, Slicing] = field(default_factory=dict)  # where devices share every layer

    def pieces(self, part: PartExecution) -> Iterator[tuple[Piece, Tensor]]:
        """Views of everything that this rank has of a part; first what all replicas have alike."""
        for entry in part.trained.state_entries():
            if entry.name in self.types:
                kind = self._kind(entry.kind)
                piece = Piece(kind, entry.name, entry.begin, entry.slicing, entry.shard)
                yield piece, entry.values

    def _kind(self, kind: str) -> str:
        """The moments of sparse tables have the names of those of dense parameters, since a table is
        one where a stage has a single replica."""
        if kind.startswith("moment "):
            return MOMENTS[self.optimizer][int(kind.removeprefix("moment ")) - 1]
        return kind

    def own_share(self, communicator: Communicator) -> dict[Piece, Tensor]:
        """The tensors that this rank saves. If several replicas have the same state, each saves a
        part; the first of the stages that share a tensor saves it. A shard saves its slices, and the
        first shard what all of them have."""
        share: dict[Piece, Tensor] = {}
        for part in self.parts:
            stage = part.part.stage
            group = communicator.roster.stage_group(stage)
            for number, (piece, values) in enumerate(self.pieces(part)):
                if self.shared.get(piece.name, (stage,))[0] != stage:
                    continue
                if piece.slicing is None and piece.shard:
                    continue
                divided = part.trained.is_divided(piece.name, piece.kind)
                if divided or group[number % len(group)] == communicator.rank:
                    share[piece] = values
        return share

    def updates(self) -> dict[str, int]:
        return {name: count for part in self.parts for name, count in part.trained.updates().items()}

    def held(self) -> Held:
        """The parameters, and the state of the optimizer, that this rank has: without statistics."""
        found: Held = {}
        for part in self.parts:
            names = part.trained.trained_names
            for piece, values in self.pieces(part):
                if piece.name in names:
                    found[piece.kind, piece.place] = (piece.begin, piece.begin + values.numel())
        return found

    def load(self, checkpoint: Checkpoint) -> Resumed:
        before = read_holders(checkpoint.folder, self.device)
        held = moved = 0
        for part in self.parts:
            names = part.trained.trained_names
            part.trained.begin_at(checkpoint.updates)
            for piece, values in self.pieces(part):
                if piece.kind != "value" and piece.name not in checkpoint.updates:
                    continue
                checkpoint.fill(piece, values, self.types[piece.name][1])
                if piece.name in names:
                    begin, end = before.get((piece.kind, piece.place), (0, 0))
                    kept = max(0, min(end, piece.begin + values.numel()) - max(begin, piece.begin))
                    held += values.nbytes
                    moved += (values.numel() - kept) * values.element_size()
        return Resumed(held, moved)


class _Save:
    """One rank's part of a checkpoint that is being written."""

    def __init__(
        self,
        facts: Facts,
        folder: Path,
        rank: int,
        pieces: dict[Piece, Tensor],
        updates: dict[str, int],
        shard: int,
    ) -> None:
        self.facts, self.folder = facts, folder
        self.file: WrittenFile | None = None
        self.error = ""
        copies = {piece: values.detach().to("cpu", copy=True) for piece, values in pieces.items()}
        self._thread = threading.Thread(target=self._write, args=(rank, copies, updates, shard), daemon=True)
        self._thread.start()

    def _write(
        self, rank: int, pieces: dict[Piece, Tensor], updates: dict[str, int], shard: int
    ) -> None:
        try:
            self.file = write_part(self.folder, rank, pieces, updates, shard)
        except OSError as error:
            self.error = f"{self.folder}: a checkpoint cannot be written: {error.strerror}"

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        self._thread.join()


class Checkpoints:
    """The checkpoints of one run in `parent`: the newest `keep` of them, one every `every` steps
    (0: only when the run ends)."""

    def __init__(
        self,
        communicator: Communicator,
        trained: Trained,
        parent: Path,
        every: int,
        keep: int,
        facts: Callable[[int], Facts],
        say: Callable[[str], None],
    ) -> None:
        """`facts`: after so many steps."""
        self._communicator, self._trained = communicator, trained
        self._parent, self._every, self._keep = parent, every, keep
        self._facts, self._say = facts, say
        self._save: _Save | None = None
        self._newest = 0  # step of the newest checkpoint, begun or complete
        self.resumed: Resumed | None = None
        self._lock: IO[bytes] | None = None
        self.ended_by: int | None = None  # a signal
        self._together(self._claim)
        self._token = communicator.wait_for_rank0(secrets.token_hex(4))
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, number: int, _: object) -> None:
        self.ended_by = number

    def _together(self, work: Callable[[], None]) -> None:
        """On rank 0; raises what it raises on all ranks."""
        fault = ""
        if self._communicator.rank == 0:
            try:
                work()
            except RuntimeFault as error:
                fault = str(error)
            except OSError as error:
                fault = f"{self._parent}: {error.strerror}"
        if fault := self._communicator.wait_for_rank0(fault):
            raise RuntimeFault(fault)

    def _claim(self) -> None:
        """One run at a time, without what others have left unfinished."""
        self._parent.mkdir(parents=True, exist_ok=True)
        self._lock = (self._parent / ".lock").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RuntimeFault(f"{self._parent}: another run saves its checkpoints there") from error
        remove_begun(self._parent)

    def resume(self) -> int:
        """Begins with the newest checkpoint that is whole; returns its step, or 0 where there is none."""
        found = self._communicator.wait_for_rank0([str(path) for path in complete_ones(self._parent)])
        for path in map(Path, found):
            checkpoint, faults = self._open(path)
            if checkpoint is not None and not faults:
                self._check(checkpoint)
                loaded = self._trained.load(checkpoint)
                self.resumed = Resumed(*self._communicator.totals_of([loaded.held, loaded.moved]))
                self._newest = checkpoint.facts.step
                self._say(f"resumed from {path}: {checkpoint.facts.step} steps are done")
                return checkpoint.facts.step
            self._say(f"note: {faults[0]}: this checkpoint is not used")
        self._say(f"note: there is no checkpoint in {self._parent}: training begins at the first step")
        return 0

    def refuse_others(self) -> None:
        """Without --resume there must be none: a restart would take one of another training."""
        found = self._communicator.wait_for_rank0([str(path) for path in complete_ones(self._parent)])
        if found:
            raise RuntimeFault(
                f"{found[0]} is there already; go on from it by --resume, or name another "
                "--checkpoint-dir"
            )

    def _open(self, path: Path) -> tuple[Checkpoint | None, list[str]]:
        """Opens a checkpoint and returns the problems that any rank has found; the ranks share the
        reading."""
        checkpoint, fault = None, ""
        try:
            checkpoint = Checkpoint(path)
            checkpoint.verify(self._communicator.rank, self._communicator.world_size)
        except (RuntimeFault, OSError) as error:
            fault = str(error)
        return checkpoint, [each for each in self._communicator.gather(fault) if each]

    def _check(self, checkpoint: Checkpoint) -> None:
        saved, wanted = checkpoint.facts, self._facts(checkpoint.facts.step)
        for what, found, own in (
            ("is of another model", saved.model, wanted.model),
            ("was trained with the optimizer", saved.optimizer, wanted.optimizer),
            ("was trained with the global batch", saved.global_batch, wanted.global_batch),
            ("was trained with the seed", saved.seed, wanted.seed),
            ("was trained, with --check or without, in", saved.precision, wanted.precision),
        ):
            if found != own:
                raise RuntimeFault(f"{checkpoint.folder} {what} ({found}; here {own})")

    def after_step(self, step: int, is_last: bool) -> bool:
        """After `step` steps are done. Returns whether the run is to end now, which a signal asks for."""
        running = self._save is not None and self._save.is_running
        failed = self._save is not None and bool(self._save.error)
        ends, running, failed = map(
            bool, self._communicator.largest_of([self.ended_by is not None, running, failed])
        )
        due = bool(self._every) and step % self._every == 0
        if self._save is not None and (failed or not running or due or ends or is_last):
            self.finish()
        if due or ends or is_last:
            self._begin(step)
        if ends or is_last:
            self.finish()
        return ends

    def _begin(self, step: int) -> None:
        if step == self._newest:
            return
        self._newest = step
        for part in self._trained.parts:
            part.bring_together()
        facts = self._facts(step)
        folder = self._parent / f"{BEGUN}{step:08d}-{self._token}"
        self._save = _Save(
            facts, folder, self._communicator.rank, self._trained.own_share(self._communicator),
            self._trained.updates(), self._communicator.shard,
        )  # fmt: skip

    def finish(self) -> None:
        """Waits for what is being written."""
        if self._save is None:
            return
        save, self._save = self._save, None
        save.wait()
        results = self._communicator.gather(save.error or save.file)
        holders = dict(self._communicator.gather((self._trained.device, self._trained.held())))
        faults = [result for result in results if isinstance(result, str)]
        if faults:
            raise RuntimeFault(faults[0])
        files = [result for result in results if isinstance(result, WrittenFile)]

        def complete() -> None:
            write_holders(save.folder, holders)
            path = commit(save.folder, self._parent, save.facts, files, self._trained.slicings)
            keep_newest(self._parent, self._keep)
            self._say(f"saved {path}")

        self._together(complete)
