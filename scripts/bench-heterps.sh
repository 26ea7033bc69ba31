#!/usr/bin/env bash
# Runs every strategy on the publication's models and on simulated resource types, and writes
# docs/experiments/heterps.md with its plots. Parts that are not run keep their results, which
# BUILD_DIR/heterps holds.
#
# usage: scripts/bench-heterps.sh BUILD_DIR [first | held-out | synchronous | ablation ...]
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1/bin/strategy_experiment
folder=$1/heterps
[[ -x $program ]] || { echo "bench-heterps: $program was not built" >&2; exit 1; }
mkdir -p "$folder"
run() { # PART OPTION ...
  "$program" "${@:2}" --policies profiles/policies > "$folder/$1.part"
  mv "$folder/$1.part" "$folder/$1.jsonl"
}
parts=("${@:2}")
[[ ${#parts[@]} -gt 0 ]] || parts=(first held-out synchronous ablation)
for part in "${parts[@]}"; do
  case $part in
  first) run first --page --seeds "${SEEDS:-10}" ;;
  held-out | synchronous) run "$part" --page "--$part" --seeds "${SEEDS:-10}" ;;
  ablation)
    run ablation --ablation --evaluations 250 --seeds 3 --problem 64x2 --problem 128x2 \
      --problem 32x32
    ;;
  *)
    echo "bench-heterps: no part is called '$part'; there are first, held-out, synchronous, ablation" >&2
    exit 1
    ;;
  esac
done
cat "$folder"/*.jsonl > "$folder/all"
python=$1/plot-venv/bin/python
if [[ ! -x $python ]]; then
  "${PYTHON:-python3}" -m venv "$1/plot-venv"
  "$python" -m pip install --quiet matplotlib==3.11.2
fi
"$python" scripts/heterps-experiment.py "$folder/all" docs/experiments
