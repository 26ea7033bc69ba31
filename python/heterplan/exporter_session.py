"""Parts of both exporters of PyTorch: the names of outputs, no output on the terminal, one kind of error."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Export:
    """A module that is to be written as a file."""

    module: nn.Module
    inputs: dict[str, Tensor]  # by the names of its arguments
    symbols: Mapping[str, Mapping[int, str]]  # names of symbolic axes, by input
    path: str | os.PathLike[str]
    output_names: Sequence[str] | None
    opset: int
    has_values: bool  # not on the meta device


def output_names_of(given: Sequence[str] | None, count: int) -> list[str]:
    """The names of `count` outputs."""
    if given and len(given) != count:
        raise ValueError(f"the module has {count} outputs; output_names has {len(given)}")
    return list(given or (["output"] if count == 1 else [f"output{i}" for i in range(count)]))


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Drops what is written to the standard output, by C++ too."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextlib.contextmanager
def exporter_errors() -> Iterator[None]:
    """Raises RuntimeError for any error inside an exporter, such as the KeyError of an unknown type. Drops the
    output of the exporter, such as the graph that it cannot write."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with _silenced():
            yield
    except (LookupError, AttributeError, TypeError, ValueError, AssertionError) as error:
        raise RuntimeError(f"the exporter failed with {type(error).__name__}: {error}") from error
    finally:
        log.setLevel(level)
