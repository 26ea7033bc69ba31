"""One rank's run: what it begins with, its steps, report and check."""

from __future__ import annotations

import argparse
import os
from typing import Any

from .assembly import Run, make_interpreter, prepare
from .background import describe_jobs
from .balance import Balancer, make_balancer
from .data_option import make_data
from .device_classes import class_of
from .epochs import Epochs
from .errors import CheckFailed, Ended, PeerLost, is_broken_connection
from .evaluation import Evaluation, make_evaluation
from .fits import rank_bytes
from .interpreter import Interpreter
from .lasting import first_step, make_checkpoints, save_trained, weights_folder
from .log import make_log
from .loop import TrainingLoop
from .machine import Usage, describe
from .model import load_whole_model
from .module_reference import ModuleReference, load_module
from .program import RankProgram, read_rank_program
from .recorder import write_trace
from .reference import Reference
from .referred_weights import referred_files
from .result import HALF_TOLERANCE, Result
from .state_check import HALF_STATE_TOLERANCE, StateEntry, worst_difference
from .watch import Watch


def _notes(run: Run) -> list[str]:
    """Notes on every difference between the run and the plan."""
    notes = []
    if run.device_note:
        notes.append(run.device_note)
    if run.communicator.staged:
        notes.append("messages are staged through the CPU (gloo)")
    device = run.communicator.device
    if run.precision.name == "bf16" and not class_of(device).has_bf16(device):
        notes.append("its device does not multiply in bf16: it takes longer than predicted, unless that was measured on such a device")
    has_tables = any(part.tables for part in run.program.parts)
    if has_tables and run.options.transfer_precision == "fp16":
        notes.append("rows of sparse tables and their gradients travel in half precision")
    if run.options.torch_compile and any(map(run.program.overlaps_sum_of, run.program.parts)):
        notes.append("compiled code returns all gradients of a stage at once: all-reduces overlap less than planned")
    return [f"note: rank {run.program.rank}: {note}" for note in notes]


def _print_notes(run: Run) -> None:
    if run.options.check:
        run.say(
            f"note: --check computes in double precision, the plan in {run.plan.precision}: steps take longer "
            "than planned"
        )
    if files := referred_files(run.options.directory):
        run.say(f"note: weights are read from {', '.join(map(str, files))}: the plan has no copy of them (--no-weights)")
    for notes in run.communicator.gather(_notes(run)):
        for note in notes:
            run.say(note)


def _finish_background(run: Run, result: Result) -> None:
    background = run.background
    if background is None:
        return
    done = [each for each in run.communicator.gather(background.finish()) if each is not None]
    result.background, lines = describe_jobs(done, background.control, background.job, result.global_batch)
    for line in lines:
        run.say(line)


def _report_machine(run: Run, result: Result, usage: Usage) -> None:
    """Reports the use of the machine if all ranks are on it."""
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
    run.say(
        f"throughput {result.samples_per_second:.1f} samples/s of all that goes by; "
        f"{result.waiting:.1%} of the time went by waiting for samples"
    )


def _write_trace(run: Run) -> None:
    if run.options.trace is None:
        return
    events = run.communicator.gather(run.recorder.events)
    if run.leads:
        write_trace(run.options.trace, run.program.model, [e for rank in events for e in rank])


def _programs(run: Run) -> list[RankProgram]:
    return [read_rank_program(run.options.directory, rank) for rank in range(run.program.world_size)]


def _make_reference(run: Run, result: Result) -> Reference | ModuleReference:
    model = run.model
    if model.is_divided:
        model = load_whole_model(run.options.directory, double=True)
    facts = (
        run.program, model, run.options.directory, run.data, run.loss, run.options.seed, run.rule,
        run.communicator.device, result.first_step,
    )  # fmt: skip
    if run.options.module:
        return ModuleReference(load_module(run.options.module), *facts)
    return Reference(*facts, _programs(run) if run.plan.batch_norm == "local" else ())


def _comparable(run: Run, entries: list[StateEntry]) -> list[StateEntry]:
    """The entries that the user's module has, too."""
    names = run.model.trained()
    return [each for each in entries if each.kind in ("value", "gradient") and each.name in names]


def _check(run: Run, interpreter: Interpreter, result: Result, epochs: Epochs) -> None:
    """Rank 0 trains alone; the others wait for its losses, then show it what they have come to."""
    losses: list[float] = []
    expected = None
    entries = [*interpreter.gradients, *interpreter.state_entries()]
    if run.options.module:
        entries = _comparable(run, entries)
    if run.leads:
        reference = _make_reference(run, result)
        steps = range(run.options.steps)
        losses = [reference.run_step(step, epochs.batch_at(step)) for step in steps]
        losses = losses[result.first_step :]
        expected = reference.state(result.state_tolerance)
    result.reference_losses = run.communicator.wait_for_rank0(losses)
    result.state_difference, result.differing_state = worst_difference(
        run.communicator, entries, expected
    )


def train(options: argparse.Namespace, store: Any = None) -> None:
    """Raises CheckFailed on every rank when --check finds other losses, Ended when a signal ended the
    training. `store`: of meet(), if the ranks have met."""
    run = prepare(options, store)
    interpreter = make_interpreter(run)
    run.memory.restart()
    watch = Watch(run.communicator, interpreter.position)
    try:
        _train(run, interpreter, watch)
    except (CheckFailed, Ended):
        watch.close()
        raise
    except Exception as error:
        if run.background is not None:
            run.background.abandon()
        if watch.failed() and is_broken_connection(error):
            raise PeerLost from error
        raise
    watch.close()
    run.communicator.close()


def _train(run: Run, interpreter: Interpreter, watch: Watch) -> None:
    options = run.options
    _print_notes(run)
    if watch.unwatched:
        run.say(f"note: ranks {watch.unwatched} cannot reach rank 0: their loss is noticed by --timeout")
    result = _make_result(run)
    folder = weights_folder(run)
    checkpoints = make_checkpoints(run, interpreter)
    if checkpoints is not None:
        result.first_step = first_step(run, checkpoints)
        if checkpoints.resumed is not None:
            result.resumed_bytes, result.moved_bytes = checkpoints.resumed.held, checkpoints.resumed.moved
    if options.check:
        interpreter.keep_gradients(result.first_step)
    usage = Usage()
    logs = (options.log_file, options.tensorboard) if run.leads else (None, None)
    log = make_log(*logs, result.first_step)
    balancer = make_balancer(
        options, run.program, run.plan, run.communicator, interpreter, run.stopwatch
    )
    loop = TrainingLoop(run, interpreter, result, checkpoints, _evaluation(run), log, balancer)
    ended = loop.run()
    interpreter.bring_together()
    _finish_background(run, result)
    _gather_memory(run, result)
    interpreter.close()
    if ended:
        raise Ended(f"ended by a signal after step {result.first_step + len(result.losses)}")
    _report(run, result)
    _report_machine(run, result, usage)
    result.balance = balancer.report(run.communicator, run.say, result.step_seconds)
    run.recorder.events += balancer.counters()
    _write_trace(run)
    if options.check:
        _check(run, interpreter, result, balancer.epochs)
    if run.leads and options.json is not None:
        options.json.write_text(result.to_json(), encoding="utf-8")
    if options.check:
        _report_check(run, result)
    if folder is not None:
        save_trained(run, interpreter, folder)


def _gather_memory(run: Run, result: Result) -> None:
    result.peak_bytes = run.communicator.gather(run.memory.bytes())
    result.resident_bytes = run.communicator.gather(run.memory.resident_bytes())
    result.predicted_bytes = run.communicator.gather(rank_bytes(run.program, run.plan))


def _make_result(run: Run) -> Result:
    result = Result(run.plan.predicted_seconds, run.program.global_batch, warmup=run.options.warmup)
    if run.options.transfer_precision == "fp16":
        result.tolerance += HALF_TOLERANCE
        result.state_tolerance = HALF_STATE_TOLERANCE
    return result


def _evaluation(run: Run) -> Evaluation | None:
    options = run.options
    if not options.evaluate_every:
        return None
    text = options.evaluation_data or options.data
    data = make_data(
        "--evaluation-data", text, run.model, run.loss, options.seed, run.program.global_batch
    )
    return make_evaluation(
        options.evaluate_every, options.evaluation_steps, data, run.loss, options.metric
    )


def _report_check(run: Run, result: Result) -> None:
    """Raises CheckFailed where there is a difference."""
    alone = "the module" if run.options.module else "one process"
    if result.passed:
        state = "" if run.options.module else " and optimizer state"
        run.say(
            f"check: {len(result.losses)} losses equal those of {alone} "
            f"(largest relative difference {result.difference:.1e}), and so do the gradients of the first "
            f"step, parameters, buffers{state} (off by "
            f"{result.state_difference * result.state_tolerance:.1e} of their movement)"
        )
        return
    for step, (found, wanted) in enumerate(zip(result.losses, result.reference_losses or [])):
        run.say(f"check: step {step + 1}: {found:.10g} here, {wanted:.10g} in {alone}")
    if result.difference <= result.tolerance:
        raise CheckFailed(
            f"{result.differing_state}, has not moved as in {alone}: it is off by "
            f"{result.state_difference * result.state_tolerance:.1e} of the movement (accepted "
            f"{result.state_tolerance:.0e})"
        )
    raise CheckFailed(
        f"losses differ from those of {alone} by {result.difference:.1e} (relative; "
        f"accepted {result.tolerance:.0e})"
    )
