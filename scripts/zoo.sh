#!/usr/bin/env bash
# Trains the models of test/zoo and what heterplan makes of them, by heterplan.compile() and by four
# bare exports, and writes docs/experiments/zoo.md. The libraries go into build/zoo-venv.
#
# usage: scripts/zoo.sh [--outputs] [PATTERN]
#
# --outputs compares outputs and gradients of exports with a symbolic and with a fixed batch, and
# writes docs/experiments/zoo-outputs.md. PATTERN is of the names; without one the page is written.
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
page=zoo
[[ ${1:-} != --outputs ]] || page=zoo-outputs
table=()
[[ ${*#--outputs} ]] || table=(--table "docs/experiments/$page.md" --results "build/zoo/$page.json")
mkdir -p build/zoo
exec "$venv/bin/python" test/zoo/run_zoo.py "${table[@]}" "$@"
