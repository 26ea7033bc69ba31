"""The package as it lies in the sources, with the binary of the build."""

from __future__ import annotations

import os
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HETERPLAN_BINARY", SOURCE / "build/bin/heterplan")).resolve()
BUILD = BINARY.parents[1]
os.environ["HETERPLAN_BINARY"] = str(BINARY)
sys.path[:0] = [str(SOURCE / "python"), str(Path(__file__).parent)]
