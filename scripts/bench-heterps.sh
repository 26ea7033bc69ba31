#!/usr/bin/env bash
# Runs every strategy on the publication's models and on simulated resource types, and writes
# docs/experiments/heterps.md with its plot. With DATA.jsonl: from results that were kept.
#
# usage: scripts/bench-heterps.sh BUILD_DIR [DATA.jsonl]
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1/bin/strategy_experiment
data=${2:-$1/strategy-experiment.jsonl}
if [[ $# -lt 2 ]]; then
  [[ -x $program ]] || { echo "bench-heterps: $program was not built" >&2; exit 1; }
  policies=(--policies profiles/policies)
  {
    for family in "" --synchronous --held-out; do
      "$program" --page $family "${policies[@]}" --seeds "${SEEDS:-10}"
    done
  } > "$data"
fi
python=$1/plot-venv/bin/python
if [[ ! -x $python ]]; then
  "${PYTHON:-python3}" -m venv "$1/plot-venv"
  "$python" -m pip install --quiet matplotlib==3.11.2
fi
"$python" scripts/heterps-experiment.py "$data" docs/experiments
