"""The command line of the runtime: trains a plan for a few steps and reports.

Under torchrun (or anything that sets RANK, WORLD_SIZE and MASTER_ADDR) it is one rank; without, it
starts all ranks on this machine. Exit status: 0 done, 1 failed, 2 the check failed. torchrun turns
any failure of a rank into 1; "checkPassed" of --json tells them apart.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from .errors import CheckFailed, RuntimeFault


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


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = _Parser("heterplan_runtime", description="Trains a compiled plan for a few steps.")
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="what `heterplan compile` wrote")
    add("--steps", type=_natural(1), default=3, help="optimizer steps (3)")
    add("--warmup", type=_natural(0), default=1, help="first steps left out of the median (1)")
    add("--loss", default="cross_entropy", help="cross_entropy, mse or module:function")
    add("--data", default="random", help="random or module:function")
    add("--lr", type=float, default=0.01, help="learning rate (0.01)")
    add("--seed", type=_natural(0), default=0)
    add(
        "--check", action="store_true",
        help="compare losses, parameters and optimizer state with those of one process",
    )  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="write the result")
    add("--trace", type=Path, metavar="FILE", help="write the Timeline of the last step")
    add(
        "--transfer-precision", choices=("fp32", "fp16"), default="fp32",
        help="of rows of sparse tables and their gradients between ranks (fp32)",
    )  # fmt: skip
    add("--threads", type=_natural(1), help="CPU threads of each rank (OMP_NUM_THREADS)")
    add("--pin", action="store_true", help="each rank of this machine on a CPU core of its own")
    add("--timeout", type=_natural(1), default=300, help="seconds to wait for another rank (300)")
    add("--device", choices=("auto", "cpu"), default="auto", help="cpu: leave GPUs alone")
    return parser.parse_args(arguments)


def _rank_text() -> str:
    return f"rank {os.environ['RANK']}" if "RANK" in os.environ else "launcher"


def _run(arguments: list[str]) -> int:
    options = parse(arguments)
    from .program import read_rank_program  # torch is slow to import: not for a usage error

    if "RANK" not in os.environ:
        world_size = read_rank_program(options.directory, 0).world_size
        from .launcher import launch

        return launch(world_size, arguments)
    from .training import train

    train(options)
    _leave(0)


def _leave(status: int) -> NoReturn:
    """Ends the process at once: threads of a process group must neither keep a failed rank alive nor
    abort one that is done, as their destructors now and then do at an orderly exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(arguments: list[str] | None = None) -> int:
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except CheckFailed as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"heterplan: check failed: {error}", file=sys.stderr)
        _leave(2)
    except RuntimeFault as error:
        print(f"heterplan: {_rank_text()}: error: {error}", file=sys.stderr)
        _leave(1)
    except Exception as error:
        _print_unexpected(error)
        _leave(1)


def _print_unexpected(error: Exception) -> None:
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        print(
            f"heterplan: error: {sys.executable} has no PyTorch; install it, or name a Python that "
            "has it by HETERPLAN_PYTHON",
            file=sys.stderr,
        )
        return
    import traceback

    print(f"heterplan: {_rank_text()}: internal error", file=sys.stderr)
    traceback.print_exception(error)
