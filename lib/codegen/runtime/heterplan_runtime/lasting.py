"""The results that a run saves and the state that it starts from: trained weights and checkpoints,
as the options request."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from .assembly import Run
from .checkpoint import Facts
from .checkpoints import Checkpoints, Trained
from .errors import RuntimeFault
from .interpreter import Interpreter
from .weights import prepare_folder, save_weights


def weights_folder(run: Run) -> Path | None:
    """The folder for the trained weights. It is known to be writable on the machine of rank 0."""
    if run.options.no_save:
        return None
    folder: Path = run.options.save or run.options.directory / "trained"
    fault = ""
    if run.leads:
        try:
            prepare_folder(folder)
        except RuntimeFault as error:
            fault = str(error)
    if fault := run.communicator.wait_for_rank0(fault):
        raise RuntimeFault(f"{fault}; name another folder by --save, or give --no-save")
    return folder


def save_trained(run: Run, interpreter: Interpreter, folder: Path) -> None:
    facts = {
        "heterplan": "trained weights",
        "model": run.program.model,
        "modelFingerprint": run.plan.model_fingerprint,
        "steps": str(run.options.steps),
    }
    path = save_weights(
        run.communicator, interpreter.state_entries(), run.model.trained(), folder, facts,
        run.model.slicings(),
    )  # fmt: skip
    run.say(f"saved {path}")


def make_checkpoints(run: Run, interpreter: Interpreter) -> Checkpoints | None:
    options = run.options
    wanted = options.checkpoint_every or options.checkpoint_dir or options.resume
    if not wanted:
        return None
    trained = run.model.trained()
    plan = hashlib.sha256((options.directory / "plan.json").read_bytes()).hexdigest()
    model = hashlib.sha256(repr(sorted(trained.items())).encode()).hexdigest()

    def facts(step: int) -> Facts:
        return Facts(
            step, run.program.global_batch, run.program.optimizer, options.seed, model, plan,
            "fp64" if options.check else "fp32",
        )  # fmt: skip

    return Checkpoints(
        run.communicator,
        Trained(
            interpreter.parts, trained, run.model.shared_parameters(), run.program.optimizer,
            _device_text(run), run.model.slicings(),
        ),
        options.checkpoint_dir or options.directory / "checkpoints",
        options.checkpoint_every, options.keep, facts, run.say,
    )  # fmt: skip


def _device_text(run: Run) -> str:
    """The planned device of this rank; unlike those of other ranks though the plan may not name any."""
    device = run.program.device
    return f"{device.node}/{device.type}/{device.index}" if device.node else f"rank {run.program.rank}"


def first_step(run: Run, checkpoints: Checkpoints) -> int:
    if not (run.options.resume or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))):
        checkpoints.refuse_others()
        return 0
    done = checkpoints.resume()
    if done >= run.options.steps:
        run.say(f"{done} steps are done, and --steps is {run.options.steps}: there is nothing to train")
    return done
