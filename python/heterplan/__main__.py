"""The command `heterplan` of the wheel: becomes the program, whose plans this Python runs."""

from __future__ import annotations

import os
import sys

from .errors import HeterplanError
from .program import environment, find_program


def main() -> None:
    """Does not return: exits with the status of the program."""
    try:
        program = str(find_program())
    except HeterplanError as error:
        sys.exit(f"heterplan: {error}")
    os.execve(program, ["heterplan", *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
