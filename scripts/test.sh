#!/usr/bin/env bash
# Runs every test of a build directory and ends with the line "N passed, N failed".
#
# usage: scripts/test.sh BUILD_DIR [ctest arguments]
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
results=$PWD/$build/test-results.xml
rm -f "$results"

status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(nproc)" \
  --output-junit "$results" "$@" </dev/null || status=$?

# Prints an attribute of the whole run, such as `failures`, from ctest's JUnit file.
attribute() { sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$results" | head -n 1; }

if [[ ! -s $results ]]; then
  echo "no test was run"
  echo "0 passed, 1 failed"
  exit 1
fi
# Cases of pytest that failed, of which ctest's summary names the programs only. They stand near the
# end, as services of continuous integration often show no more of a long output.
grep -E '^(FAILED|ERROR) test/' "$build/Testing/Temporary/LastTest.log" | head -n 40

total=$(attribute tests) failed=$(attribute failures) skipped=$(attribute skipped)
# CTest counts a program that could not be started as skipped; to us it has failed.
absent=$(grep -c 'message="Unable to find executable"' "$results" || true)
failed=$((failed + absent)) skipped=$((skipped - absent))
((skipped == 0)) || echo "$skipped skipped: see above for why"
echo "$((total - failed - skipped)) passed, $failed failed"
((failed == 0)) || exit 1
exit "$status"
