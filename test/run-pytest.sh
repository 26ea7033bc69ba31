#!/usr/bin/env bash
# Runs pytest of .venv over the given folders, with HETERPLAN_BINARY. 77: skipped. HETERPLAN_SWEEPS=1
# also runs tests marked `sweep`, which are further cases of what others test.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ ! -x .venv/bin/python ]]; then
  echo "skipped: there is no .venv; run \`make setup\`"
  exit 77
fi
if ! compgen -G "$1/test_*.py" >/dev/null && ! compgen -G "$1/*/test_*.py" >/dev/null; then
  echo "skipped: $1 has no tests"
  exit 77
fi
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
[[ -n ${HETERPLAN_SWEEPS:-} ]] || set -- "$@" -m "not sweep"
exec .venv/bin/python -m pytest -q -p no:cacheprovider -o "markers=sweep: further cases" "$@"
