#!/usr/bin/env bash
# Prints README.md with the output of its worked example made anew; a golden test holds README.md to
# it. Commands are the lines of the blocks that start with `$ `.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
heterplan=${HETERPLAN_BINARY:-$source/build/bin/heterplan}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ln -s "$source/test" "$source/profiles" "$scratch/"
cd "$scratch"

example=
while IFS= read -r line; do
  if [[ $line == '```' ]]; then
    example=
    echo "$line"
  elif [[ $line == '$ heterplan '* ]]; then
    example=1
    echo "$line"
    eval "'$heterplan' ${line#'$ heterplan '}" 2>&1 || echo "(status $?)"
  elif [[ ! $example ]]; then
    echo "$line"
  fi
done <"$source/README.md"
