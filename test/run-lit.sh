#!/usr/bin/env bash
# Runs the golden tests (lit and FileCheck) on the binary HETERPLAN_BINARY. 77: skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly llvm=/usr/lib/llvm-14
if [[ ! -f test/golden/lit.cfg.py ]]; then
  echo "skipped: test/golden has no lit.cfg.py"
  exit 77
fi
lit=$llvm/build/utils/lit/lit.py
[[ -f $lit ]] || lit=$(command -v lit) || { echo "skipped: lit is not installed"; exit 77; }
export PATH=$llvm/bin:$(dirname "$HETERPLAN_BINARY"):$PATH PYTHONDONTWRITEBYTECODE=1
mkdir -p "$HETERPLAN_TEST_OUTPUT"
exec python3 "$lit" -v --no-progress-bar "$@" test/golden
