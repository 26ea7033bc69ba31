#!/usr/bin/env bash
# Fuzzes each file reader for FUZZ_SECONDS (60). What crashes is left in test/fuzz/corpus/NAME/,
# where the ordinary tests replay it until it is mended.
#
# usage: scripts/fuzz.sh BUILD_DIR [NAME...]
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
names=("$@")
if ((${#names[@]} == 0)); then
  for program in "$build"/bin/fuzz_*; do names+=("${program##*/fuzz_}"); done
fi
status=0
for name in "${names[@]}"; do
  seeds=test/fuzz/corpus/$name
  found=$build/corpus/$name
  words=test/fuzz/dictionaries/$name.dict dictionary=()
  [[ -f $words || $name == onnx ]] || words=test/fuzz/dictionaries/json.dict
  [[ -f $words ]] && dictionary=(-dict="$words")
  mkdir -p "$found"
  echo "fuzz: $name for ${FUZZ_SECONDS:=60} seconds"
  "$build/bin/fuzz_$name" -max_total_time="$FUZZ_SECONDS" -timeout=10 -rss_limit_mb=2048 \
    -max_len=65536 -print_final_stats=1 -artifact_prefix="$seeds/" "${dictionary[@]}" \
    "$found" "$seeds" >"$build/fuzz-$name.log" 2>&1 || { status=1; tail -n 40 "$build/fuzz-$name.log"; }
  grep -E 'stat::(number_of_executed_units|average_exec_per_sec|peak_rss_mb)' \
    "$build/fuzz-$name.log"
done
exit "$status"
