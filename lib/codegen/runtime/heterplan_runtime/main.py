"""The command line of the runtime: trains a plan for a few steps and reports.

Under torchrun (or anything that sets RANK, WORLD_SIZE and MASTER_ADDR) and under Slurm's srun it is one
rank; otherwise it starts all ranks on this machine. Exit status: 0 done, 1 failed, 2 the check failed. torchrun turns
any failure of a rank into 1; "checkPassed" of --json tells them apart. A training that a signal ended
has status 1, too.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from .errors import CheckFailed, Ended, LaunchFault, PeerLost, RuntimeFault, is_broken_connection
from .launched import check_environment, check_launch, host_ranks, take_environment
from .manifest import BACKGROUND, check_directory
from .process import end_with_parent

if TYPE_CHECKING:
    from .program import RankProgram


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: error: {message}\n")


def _natural(least: int) -> Callable[[str], int]:
    def parse_natural(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}")
        return int(text)

    return parse_natural


def _not_negative(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError("expected a number of at least 0")
    return value


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = _Parser("heterplan_runtime", description="Trains a compiled plan for a few steps.")
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="what `heterplan compile` wrote")
    add("--steps", type=_natural(1), default=3, help="optimizer steps in all, those of --resume too (3)")
    add("--warmup", type=_natural(0), default=1, help="first steps left out of the median (1)")
    add(
        "--loss", default="cross_entropy",
        help="cross_entropy, token_cross_entropy, mse or module:function",
    )  # fmt: skip
    add("--data", default="random", help="random, fixed (the same samples in each step) or module:name")
    add("--lr", type=float, default=0.01, help="learning rate (0.01)")
    add(
        "--lr-schedule", default="constant", metavar="S",
        help="constant, linear or cosine, then ,warmup=N ,steps=N (--steps) ,floor=PART (0)",
    )  # fmt: skip
    add("--weight-decay", type=_not_negative, default=0.0, metavar="X", help="AdamW with Adam (0)")
    add("--gradient-clip", type=_not_negative, default=0.0, metavar="X", help="largest norm (0: any)")
    add("--seed", type=_natural(0), default=0)
    add(
        "--check", action="store_true",
        help="compare losses, gradients, parameters and optimizer state with one process, all in double precision",
    )  # fmt: skip
    add(
        "--module", metavar="FILE.py:FUNCTION",
        help="with --check: compare with the module that FUNCTION returns, trained by PyTorch alone",
    )  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="write the result")
    add("--trace", type=Path, metavar="FILE", help="write the Timeline of the last step")
    add(
        "--transfer-precision", choices=("fp32", "fp16"), default="fp32",
        help="of rows of sparse tables and their gradients between ranks (fp32)",
    )  # fmt: skip
    _add_watching(parser)
    _add_lasting(parser)
    _add_balance(parser)
    add("--threads", type=_natural(1), help="CPU threads of each rank (OMP_NUM_THREADS)")
    add("--pin", action="store_true", help="each rank of this machine on CPU cores of its own")
    add("--torch-compile", action="store_true", help="run each stage as code that torch.compile generates")
    add("--timeout", type=_natural(1), default=300, help="seconds to wait for another rank (300)")
    add("--node", default="", metavar="NAME", help="node of the plan that this host is (found by name and devices)")
    add("--allow-edits", action="store_true", help="run files that were changed after compile too")
    add("--device", choices=("auto", "cpu"), default="auto", help="cpu: leave GPUs alone")
    add("--no-background", action="store_true", help="leave the background job of the plan alone")
    add(
        "--background-options", default="", metavar="TEXT",
        help="options of its copies, as in '--lr 0.1 --data module:function'",
    )  # fmt: skip
    add("--gate", type=Path, help=argparse.SUPPRESS)  # this is a copy of a background job
    add("--checked", action="store_true", help=argparse.SUPPRESS)  # the launcher did
    add("--go-on-with", type=Path, help=argparse.SUPPRESS)  # the plan for what is left after a loss
    options = parser.parse_args(arguments)
    options.directory = options.go_on_with or options.directory
    return options


def _add_watching(parser: argparse.ArgumentParser) -> None:
    """Options of samples and of the records of a training."""
    add = parser.add_argument
    add(
        "--data-workers", type=_natural(0), metavar="N",
        help="processes of each rank that make samples ahead (CPUs: 1 for module:name, else 0; GPUs: up to 4)",
    )  # fmt: skip
    add("--log-file", type=Path, metavar="FILE", help="write a line of JSON for each step")
    add("--tensorboard", type=Path, metavar="DIR", help="write TensorBoard events for each step")
    add(
        "--evaluate-every", type=_natural(0), default=0, metavar="N",
        help="evaluate every N steps and at the end (0: never)",
    )  # fmt: skip
    add("--evaluation-data", metavar="D", help="as --data, of evaluations (--data)")
    add("--evaluation-steps", type=_natural(1), default=1, metavar="N", help="global batches of each (1)")
    add(
        "--metric", action="append", default=[], metavar="M",
        help="accuracy or module:function, of evaluations; may be repeated",
    )  # fmt: skip


def _add_lasting(parser: argparse.ArgumentParser) -> None:
    """Options of what is left of a training."""
    add = parser.add_argument
    add("--save", type=Path, metavar="DIR", help="where the trained weights go (trained/ of the plan)")
    add("--no-save", action="store_true", help="throw the trained weights away")
    add(
        "--checkpoint-every", type=_natural(0), default=0, metavar="N",
        help="a checkpoint every N steps, at the end and on SIGTERM (0: the last two only)",
    )  # fmt: skip
    add("--checkpoint-dir", type=Path, metavar="DIR", help="of checkpoints (checkpoints/ of the plan)")
    add("--keep", type=_natural(1), default=2, metavar="K", help="newest checkpoints that are kept (2)")
    add("--resume", action="store_true", help="go on from the newest checkpoint, if there is one")
    add(
        "--max-restarts", type=_natural(0), default=0, metavar="N",
        help="start all ranks again from the last checkpoint when one fails, up to N times (0)",
    )  # fmt: skip
    add(
        "--elastic", action="store_true",
        help="when a rank is killed, restart with the fallback plan that 'heterplan replan' has prepared",
    )  # fmt: skip
    add("--allow-nan", action="store_true", help="go on when the loss is not a finite number")
    add("--ignore-memory", action="store_true", help="start though the plan predicts more than is free")


def _balance(text: str) -> str:
    from .policies import POLICIES, REPLAY

    if text not in POLICIES and not (text.startswith(REPLAY) and text != REPLAY):
        raise argparse.ArgumentTypeError(f"expected {', '.join(POLICIES)} or {REPLAY}FILE")
    return text


def _part(text: str) -> float:
    value = _not_negative(text)
    if value >= 1:
        raise argparse.ArgumentTypeError("expected a number from 0 up to, not including, 1")
    return value


def _add_balance(parser: argparse.ArgumentParser) -> None:
    """Options of how the batch is divided."""
    add = parser.add_argument
    add(
        "--balance", type=_balance, default="plan", metavar="B",
        help="shares of replicas: plan, even, lb-bsp[-last|-ema|-ar|-narx|-fit] or replay:FILE (plan)",
    )  # fmt: skip
    add(
        "--balance-every", type=_natural(1), default=5, metavar="N",
        help="steps between two barriers at which lb-bsp may move shares (5)",
    )  # fmt: skip
    add(
        "--balance-hysteresis", type=_part, default=0.03, metavar="X",
        help="part of the slowest time that moving them has to save (0.03)",
    )  # fmt: skip
    add(
        "--epoch-samples", type=_natural(1), default=0, metavar="N",
        help="samples of an epoch, whose last batch has what is left (no end)",
    )  # fmt: skip


def _rank_text() -> str:
    return f"rank {os.environ['RANK']}" if "RANK" in os.environ else "launcher"


def _check_files(options: argparse.Namespace) -> None:
    """Once on each machine: by the launcher, or by the first rank where there is none."""
    if os.environ.get("LOCAL_RANK", "0") == "0" and not options.checked:
        packages = [options.directory]
        if not options.no_background and (options.directory / BACKGROUND).is_dir():
            packages.append(options.directory / BACKGROUND)
        for package in packages:
            for note in check_directory(package, options.allow_edits):
                print(f"note: {package}: {note}", file=sys.stderr)


def _run(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.module and not options.check:
        raise RuntimeFault("--module is what --check compares with; give --check, too")
    if options.elastic and not options.max_restarts:
        raise RuntimeFault("--elastic restarts ranks; give --max-restarts N, too")
    if launched := take_environment():
        check_environment()
        end_with_parent()
    _check_files(options)
    if not launched:
        return _launch(options, arguments)
    check_launch(options.directory)
    from datetime import timedelta

    from .meeting import meet  # torch is slow to import: not for a usage error

    store = meet(timedelta(seconds=options.timeout), options.directory, options.node)
    if os.environ.get("LOCAL_RANK") == "0" and not options.checked:
        _check_memory(options, _programs_on_cpu(options, host_ranks()))
    from .training import train

    train(options, store)
    return 0


def _launch(options: argparse.Namespace, arguments: list[str]) -> int:
    from .fallbacks import Fallbacks
    from .launcher import launch, this_host
    from .program import read_world_size

    host = this_host(read_world_size(options.directory))
    on_cpu = _programs_on_cpu(options, range(host.first, host.first + host.count))
    _check_memory(options, on_cpu)
    own = [*arguments, "--checked"]
    fallbacks = Fallbacks(options, own)
    after = fallbacks.after_loss_of if options.elastic else lambda rank: None
    return launch(host, own, options.max_restarts, len(on_cpu) == host.count, after)


def _programs_on_cpu(options: argparse.Namespace, ranks: range) -> list[RankProgram]:
    """The programs of those of these ranks of this machine that compute on its CPU."""
    from .device_classes import CPU, class_named
    from .program import read_rank_program

    return [
        program
        for program in (read_rank_program(options.directory, rank) for rank in ranks)
        if options.device == CPU.name or class_named(program.device_kind).count() == 0
        or class_named(program.device_kind) is CPU
    ]  # fmt: skip


def _check_memory(options: argparse.Namespace, on_cpu: list[RankProgram]) -> None:
    """Whether this machine has what these ranks need of it."""
    from .background import copy_bytes
    from .fits import check_host_memory, free_bytes, rank_bytes
    from .program import read_plan

    if on_cpu and not options.ignore_memory:
        plan = read_plan(options.directory)
        needs = [rank_bytes(each, plan) + copy_bytes(options, each.rank) for each in on_cpu]
        check_host_memory(needs, free_bytes())


def leave(status: int) -> NoReturn:
    """Ends the process at once: threads of a process group must neither keep a failed rank alive nor
    abort one that is done, as their destructors now and then do at an orderly exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(arguments: list[str] | None = None) -> int:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a rank that ends makes others warn with stack traces
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except CheckFailed as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"heterplan: check failed: {error}", file=sys.stderr)
        return 2
    except Ended as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"heterplan: {error}; --resume goes on", file=sys.stderr)
        return 1
    except PeerLost:
        return 1
    except RuntimeFault as error:
        if not isinstance(error, LaunchFault) or os.environ.get("LOCAL_RANK", "0") == "0":
            print(f"heterplan: {_rank_text()}: error: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        _print_unexpected(error)
        return 1


def _print_unexpected(error: Exception) -> None:
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        print(
            f"heterplan: error: {sys.executable} has no PyTorch; install it, or name a Python that "
            "has it by HETERPLAN_PYTHON",
            file=sys.stderr,
        )
        return
    if is_broken_connection(error):
        reason = str(error).splitlines()[0]
        print(
            f"heterplan: {_rank_text()}: error: the connection to another rank broke, which has ended or cannot be "
            f"reached: {reason}",
            file=sys.stderr,
        )
        return
    import traceback

    print(f"heterplan: {_rank_text()}: internal error", file=sys.stderr)
    traceback.print_exception(error)
