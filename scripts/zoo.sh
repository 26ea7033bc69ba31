#!/usr/bin/env bash
# Exports the models of test/zoo in four ways, compares what is made of them with the modules, and
# writes docs/experiments/zoo.md. The libraries of the models go into build/zoo-venv.
#
# usage: scripts/zoo.sh [PATTERN]      of the names; the document is written only without one
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/zoo-venv
if [[ ! -x $venv/bin/python ]]; then
  .venv/bin/python -m venv "$venv"
  .venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' \
    >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/torch.pth"
fi
"$venv/bin/python" -m pip install --quiet --no-deps -r test/zoo/requirements.txt
export PYTHONDONTWRITEBYTECODE=1 HETERPLAN_BINARY=${HETERPLAN_BINARY:-$PWD/build/bin/heterplan}
table=()
(($#)) || table=(--table docs/experiments/zoo.md --results build/zoo/results.json)
mkdir -p build/zoo
exec "$venv/bin/python" test/zoo/run_zoo.py "${table[@]}" "$@"
