"""The plans that `heterplan replan --fallbacks` has prepared for lost nodes, in `fallbacks/` of a plan."""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import dataclass
from pathlib import Path

from .errors import RuntimeFault
from .fields import read_fields
from .program import read_planned_device, read_world_size

INDEX = "fallbacks/index.json"


@dataclass(frozen=True)
class Fallback:
    """A plan to go on with, and the options of its ranks."""

    directory: Path
    world_size: int
    arguments: list[str]


class Fallbacks:
    """Chooses the plan for a lost rank. A fallback has none of its own: a rank that it loses starts again."""

    def __init__(self, options: argparse.Namespace, arguments: list[str]) -> None:
        self._options, self._arguments = options, arguments
        self._directories: dict[str, Path] = {}  # by node
        self._used = False
        index = options.directory / INDEX
        if not index.exists():
            return
        fields = read_fields(index)
        plan = hashlib.sha256((options.directory / "plan.json").read_bytes()).hexdigest()
        if fields.text("plan") != plan:
            raise RuntimeFault(f"{index}: its plans are for another plan; run 'heterplan replan --fallbacks' again")
        for each in fields.objects("fallbacks"):
            if each.integer("lost") == 1:
                for node in each.texts("nodes"):
                    self._directories[node] = options.directory / "fallbacks" / each.text("directory")

    def after_loss_of(self, rank: int) -> Fallback | None:
        """The plan without the node of `rank`; None: go on with the same."""
        if self._used or not self._directories:
            return None
        directory = self._directories.get(read_planned_device(self._options.directory, rank).node)
        if directory is None:
            return None
        self._used = True
        more = ["--go-on-with", str(directory)]
        if self._options.checkpoint_dir is None:
            more += ["--checkpoint-dir", str(self._options.directory / "checkpoints")]
        if self._options.save is None and not self._options.no_save:
            more += ["--save", str(self._options.directory / "trained")]
        return Fallback(directory, read_world_size(directory), [*self._arguments, *more])
