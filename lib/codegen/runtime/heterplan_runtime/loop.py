"""The steps of a run: samples, training, and the records and checkpoints of each."""

from __future__ import annotations

import math
import time

from .assembly import Run
from .balance import Balancer
from .checkpoints import Checkpoints
from .device_classes import class_of
from .errors import RuntimeFault
from .evaluation import Evaluation
from .interpreter import Interpreter
from .log import Log
from .model import seed_draws
from .result import Result


class TrainingLoop:
    """All ranks run it together."""

    def __init__(
        self,
        run: Run,
        interpreter: Interpreter,
        result: Result,
        checkpoints: Checkpoints | None,
        evaluation: Evaluation | None,
        log: Log,
        balancer: Balancer,
    ) -> None:
        self._run, self._interpreter, self._result = run, interpreter, result
        self._checkpoints, self._evaluation, self._log = checkpoints, evaluation, log
        self._balancer = balancer
        self._device = run.communicator.device
        self._kernels: list[float] = []  # seconds of the reference kernel, around each step

    def run(self) -> bool:
        """Returns whether a signal ended it."""
        steps = range(self._result.first_step, self._run.options.steps)
        self._run.data.begin(steps, self._interpreter.sample_ranges())
        ended = False
        if self._run.background is not None:
            self._run.background.begin()
        self._last = time.perf_counter()
        for step in steps:
            self._step(step)
            ended = self._after_step(step + 1)
            if ended:
                break
        self._measure_core()
        self._result.reference_kernel_seconds = self._run.communicator.gather(self._kernels)
        return ended

    def _step(self, step: int) -> None:
        run, communicator = self._run, self._run.communicator
        seed_draws(run.options.seed, step, min(communicator.roster.shard_group))
        if self._balancer.before_step(step):
            run.data.begin(range(step, run.options.steps), self._interpreter.sample_ranges())
        begin = time.perf_counter()
        self._interpreter.prepare(step, run.data)
        waited = time.perf_counter() - begin
        self._measure_core()
        communicator.barrier()
        begin = time.perf_counter()
        if step == run.options.steps - 1 and run.options.trace is not None:
            run.recorder.start()
        own = self._interpreter.run_step(step)
        class_of(self._device).synchronize(self._device)
        now = time.perf_counter()
        times = communicator.largest_of([now - begin, waited, now - self._last])
        self._last = now
        self._record(step, communicator.total(own), *times)

    def _record(self, step: int, loss: float, seconds: float, waited: float, wall: float) -> None:
        run, result = self._run, self._result
        result.losses.append(loss)
        result.step_seconds.append(seconds)
        result.data_seconds.append(waited)
        result.wall_seconds.append(wall)
        if run.background is not None:
            run.background.after_step(seconds)
        self._balancer.after_step()
        rate = self._balancer.epochs.batch_at(step) / wall
        left = result.seconds_left(run.options.steps)
        run.say(
            f"step {step + 1}  loss {loss:.6f}  {seconds * 1e3:.2f} ms  {rate:.1f} samples/s  "
            f"{int(left) // 60}:{int(left) % 60:02d} left"
        )
        self._log.write(
            step + 1, loss=loss, learningRate=run.rule.rate_at(step), stepSeconds=seconds,
            dataSeconds=waited, wallSeconds=wall, samplesPerSecond=rate,
        )  # fmt: skip
        if not (math.isfinite(loss) or run.options.allow_nan):
            if self._checkpoints is not None:
                self._checkpoints.finish()
            raise RuntimeFault(
                f"step {step + 1}: the loss is {loss}; a smaller --lr may help, and --allow-nan goes on"
            )

    def _after_step(self, done: int) -> bool:
        is_last = done == self._run.options.steps
        if self._evaluation is not None and self._evaluation.is_due(done, is_last):
            self._evaluate(self._evaluation, done)
        return self._checkpoints is not None and self._checkpoints.after_step(done, is_last)

    def _evaluate(self, evaluation: Evaluation, done: int) -> None:
        found = evaluation.run(self._interpreter, self._run.communicator)
        self._result.evaluations.append({"step": done, **found})
        told = "  ".join(f"{name} {value:.6f}" for name, value in found.items())
        self._run.say(f"evaluation after step {done}  {told}")
        self._log.write(done, evaluation=found)

    def _measure_core(self) -> None:
        """Between steps."""
        self._kernels.append(class_of(self._device).reference_kernel(self._device))
