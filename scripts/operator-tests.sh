#!/usr/bin/env bash
# ONNX's operator tests: scripts/operator-tests.sh [PATTERN | --update]. See docs/development.md.
set -euo pipefail
cd "$(dirname "$0")/.."
export HETERPLAN_BINARY=${HETERPLAN_BINARY:-$PWD/build/bin/heterplan} PYTHONDONTWRITEBYTECODE=1
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
exec .venv/bin/python test/conformance/operator_tests.py "$@"
