#!/usr/bin/env bash
# Formats the C++ sources, or checks their format and runs clang-tidy over them.
#
# usage: scripts/lint.sh format
#        scripts/lint.sh check BUILD_DIR [FILE...]   clang-tidy of all of lib and tools, or the named
#        scripts/lint.sh check-format               77 where there is no clang-format 14 or no git
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ $1 == check-format ]] && ! { command -v clang-format-14 && git rev-parse; } &>/dev/null; then
  echo "skipped: needs clang-format-14 and a git checkout; see \`make lint\`"
  exit 77
fi
mapfile -t sources < <(git ls-files 'lib/*.h' 'lib/*.cpp' 'lib/*.cu' 'tools/*.h' 'tools/*.cpp' \
  'test/*.h' 'test/*.cpp' 'bench/*.h' 'bench/*.cpp')

if [[ $1 == format ]]; then
  clang-format-14 -i "${sources[@]}"
  exit
fi
status=0
clang-format-14 --dry-run --Werror "${sources[@]}" || status=1
[[ $1 == check-format ]] && exit "$status"
build=$2
shift 2

checked=("$@")
if ((${#checked[@]} == 0)); then
  mapfile -t checked < <(git ls-files 'lib/*.cpp' 'tools/*.cpp')
fi
printf '%s\0' "${checked[@]}" |
  xargs -0 -P "$(nproc)" -n 1 clang-tidy-14 -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option 2>&1 |
  { grep -v 'warnings generated\.$' || true; } || status=1
((status == 0)) && echo "lint: clean" || echo "lint: see above"
exit "$status"
