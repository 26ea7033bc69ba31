"""One rank's run: steps, report, check."""

from __future__ import annotations

import argparse
import math
import os
import time

from .assembly import Run, make_interpreter, prepare
from .background import describe_jobs
from .checkpoints import Checkpoints
from .device_classes import class_named, class_of
from .errors import CheckFailed, Ended, RuntimeFault
from .interpreter import Interpreter
from .lasting import first_step, make_checkpoints, save_trained, weights_folder
from .machine import Usage, describe
from .model import seed_draws
from .recorder import write_trace
from .reference import Reference
from .result import HALF_TOLERANCE, Result
from .state_check import STATE_TOLERANCE, worst_difference
from .watch import Watch


def _notes(run: Run) -> list[str]:
    """What differs from the plan; nothing of it happens in silence."""
    notes = []
    device = run.communicator.device
    if class_named(run.program.device_kind) is not class_of(device):
        notes.append("planned for a GPU, runs on the CPU")
    if run.communicator.staged:
        notes.append("messages are staged through the CPU (gloo)")
    has_tables = any(part.tables for part in run.program.parts)
    if has_tables and run.options.transfer_precision == "fp16":
        notes.append("rows of sparse tables and their gradients travel in half precision")
    if run.plan.precision == "bf16":
        notes.append("planned in bf16, runs in fp32")
    return [f"note: rank {run.program.rank}: {note}" for note in notes]


def _print_notes(run: Run) -> None:
    for notes in run.communicator.gather(_notes(run)):
        for note in notes:
            run.say(note)


def _steps(
    run: Run, interpreter: Interpreter, result: Result, checkpoints: Checkpoints | None
) -> bool:
    """Returns whether a signal ended them."""
    steps = run.options.steps
    reference_kernels: list[float] = []
    ended = False
    if run.background is not None:
        run.background.begin()
    for step in range(result.first_step, steps):
        seed_draws(run.options.seed, step, run.program.rank)
        interpreter.prepare(step)
        _measure_core(run, reference_kernels)
        run.communicator.barrier()
        begin = time.perf_counter()
        if step == steps - 1 and run.options.trace is not None:
            run.recorder.start()
        own = interpreter.run_step(step)
        class_of(run.communicator.device).synchronize(run.communicator.device)
        seconds = run.communicator.largest(time.perf_counter() - begin)
        loss = run.communicator.total(own)
        result.losses.append(loss)
        result.step_seconds.append(seconds)
        if run.background is not None:
            run.background.after_step(seconds)
        rate = result.global_batch / seconds
        run.say(f"step {step + 1}  loss {loss:.6f}  {seconds * 1e3:.2f} ms  {rate:.1f} samples/s")
        if not (math.isfinite(loss) or run.options.allow_nan):
            if checkpoints is not None:
                checkpoints.finish()
            raise RuntimeFault(
                f"step {step + 1}: the loss is {loss}; a smaller --lr may help, and --allow-nan goes on"
            )
        if checkpoints is not None:
            ended = checkpoints.after_step(step + 1, step + 1 == steps)
        if ended:
            break
    _measure_core(run, reference_kernels)
    result.reference_kernel_seconds = run.communicator.gather(reference_kernels)
    return ended


def _measure_core(run: Run, reference_kernels: list[float]) -> None:
    """Between steps."""
    device = run.communicator.device
    reference_kernels.append(class_of(device).reference_kernel(device))


def _finish_background(run: Run, result: Result) -> None:
    background = run.background
    if background is None:
        return
    done = [each for each in run.communicator.gather(background.finish()) if each is not None]
    result.background, lines = describe_jobs(done, background.control, background.job, result.global_batch)
    for line in lines:
        run.say(line)


def _report_machine(run: Run, result: Result, usage: Usage) -> None:
    """Where all ranks are on this machine."""
    usages = run.communicator.gather(usage.read())
    if os.environ.get("LOCAL_WORLD_SIZE") != str(run.program.world_size):
        return
    if text := describe(usages, result.reference_kernel_seconds):
        run.say(f"note: {text}")


def _report(run: Run, result: Result) -> None:
    if not result.step_seconds:
        return
    predicted, measured = result.predicted_seconds, result.measured_seconds
    ratio = f", {measured / predicted:.2f} times the prediction" if predicted > 0 else ""
    counted = max(1, len(result.step_seconds) - result.warmup)
    run.say(
        f"predicted {predicted * 1e3:.2f} ms, measured {measured * 1e3:.2f} ms a step "
        f"(median of {counted}){ratio}"
    )


def _write_trace(run: Run) -> None:
    if run.options.trace is None:
        return
    events = run.communicator.gather(run.recorder.events)
    if run.leads:
        write_trace(run.options.trace, run.program.model, [e for rank in events for e in rank])


def _check(run: Run, interpreter: Interpreter, result: Result) -> None:
    """Rank 0 trains alone; the others wait for its losses, then show it what they end with."""
    losses: list[float] = []
    expected = None
    if run.leads:
        reference = Reference(
            run.program, run.model, run.options.directory, run.data, run.loss,
            run.options.seed, run.rule, run.communicator.device,
        )  # fmt: skip
        losses = [reference.run_step(step) for step in range(run.options.steps)]
        losses = losses[result.first_step :]
        expected = reference.state()
    result.reference_losses = run.communicator.wait_for_rank0(losses)
    result.state_difference, result.differing_state = worst_difference(
        run.communicator, interpreter.state_entries(), expected
    )


def train(options: argparse.Namespace) -> None:
    """Raises CheckFailed on every rank when --check finds other losses, Ended when a signal ended the
    training."""
    run = prepare(options)
    interpreter = make_interpreter(run)
    run.memory.restart()
    watch = Watch(run.communicator, interpreter.position)
    try:
        _train(run, interpreter, watch)
    except (CheckFailed, Ended):
        watch.close()
        raise
    except Exception:
        if run.background is not None:
            run.background.abandon()
        watch.failed()
        raise
    watch.close()
    run.communicator.close()


def _train(run: Run, interpreter: Interpreter, watch: Watch) -> None:
    options = run.options
    _print_notes(run)
    if watch.unwatched:
        run.say(f"note: ranks {watch.unwatched} cannot reach rank 0: their loss is noticed by --timeout")
    result = Result(run.plan.predicted_seconds, run.program.global_batch, warmup=options.warmup)
    if options.transfer_precision == "fp16":
        result.tolerance += HALF_TOLERANCE
    folder = weights_folder(run)
    checkpoints = make_checkpoints(run, interpreter)
    if checkpoints is not None:
        result.first_step = first_step(run, checkpoints)
    usage = Usage()
    ended = _steps(run, interpreter, result, checkpoints)
    _finish_background(run, result)
    result.peak_bytes = run.communicator.gather(run.memory.bytes())
    interpreter.close()
    if ended:
        raise Ended(f"ended by a signal after step {result.first_step + len(result.losses)}")
    _report(run, result)
    _report_machine(run, result, usage)
    _write_trace(run)
    if options.check:
        _check(run, interpreter, result)
    if run.leads and options.json is not None:
        options.json.write_text(result.to_json(), encoding="utf-8")
    if not result.passed:
        _explain_difference(run, result)
    if options.check:
        run.say(
            f"check: {len(result.losses)} losses equal those of one process "
            f"(largest relative difference {result.difference:.1e}), and so do parameters, buffers "
            "and optimizer state"
        )
    if folder is not None:
        save_trained(run, interpreter, folder)


def _explain_difference(run: Run, result: Result) -> None:
    for step, (found, wanted) in enumerate(zip(result.losses, result.reference_losses or [])):
        run.say(f"check: step {step + 1}: {found:.8g} here, {wanted:.8g} in one process")
    if result.difference <= result.tolerance:
        raise CheckFailed(
            f"{result.differing_state}, has not moved as in one process: it is off by "
            f"{result.state_difference * STATE_TOLERANCE:.1e} of the movement (accepted "
            f"{STATE_TOLERANCE:.0e})"
        )
    raise CheckFailed(
        f"losses differ from those of one process by {result.difference:.1e} (relative; "
        f"accepted {result.tolerance:.0e})"
    )
