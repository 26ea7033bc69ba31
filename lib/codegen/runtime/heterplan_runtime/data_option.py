"""Data sources that --data and --evaluation-data name."""

from __future__ import annotations

import inspect
from typing import Any

from .data import DataSource, RandomData, UserData
from .epochs import Epochs
from .errors import RuntimeFault
from .losses import Loss, import_object
from .map_dataset import map_dataset
from .model import Model


def make_data(
    option: str,
    text: str,
    model: Model,
    loss: Loss,
    seed: int,
    global_batch: int,
    epoch_samples: int = 0,
) -> DataSource:
    """Random samples, or what `module:name` is: a function of step and samples, a data set, a DataLoader,
    or a function without arguments that makes one of these."""
    if text in ("random", "fixed"):
        return RandomData(model, loss, seed, fixed=text == "fixed")
    what = f"{option} {text}"
    if ":" not in text:
        raise RuntimeFault(f"{what}: expected random, fixed or module:name")
    found = import_object(text, option)
    if callable(found) and not _is_indexed(found) and not _parameters(found):
        found = found()
    if source := map_dataset(what, found, model, Epochs(global_batch, epoch_samples), seed):
        return source
    if not callable(found):
        raise RuntimeFault(f"{what}: not a function of step and samples, a data set or a DataLoader")
    return UserData(what, found, model)


def _is_indexed(found: Any) -> bool:
    return not inspect.isclass(found) and hasattr(found, "__getitem__") and hasattr(found, "__len__")


def _parameters(function: Any) -> int:
    """The number of parameters of a function that have no default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sum(each.default is each.empty and each.kind not in variable for each in parameters)
