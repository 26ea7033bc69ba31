#!/usr/bin/env bash
# Runs the benchmarks of a build directory.
#
# usage: scripts/bench.sh BUILD_DIR [Google Benchmark options]
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1/bin/heterplan_bench
shift
[[ -x $program ]] || { echo "bench: $program was not built" >&2; exit 1; }
exec "$program" --benchmark_counters_tabular=true "$@"
