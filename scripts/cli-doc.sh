#!/usr/bin/env bash
# Prints docs/cli.md from the --help of the binary: scripts/cli-doc.sh > docs/cli.md. A golden test
# holds the document to this.
set -euo pipefail
heterplan=${HETERPLAN_BINARY:-build/bin/heterplan}

cat <<'TEXT'
# The command line

This page lists every command and option of `heterplan`. [guide.md](guide.md) shows the commands at
work.

- stdout gets the answer: text and tables, or the same facts as JSON with `--json`.
- stderr gets diagnostics and notes; progress too, but only on a terminal. There are no colours.
- The same inputs, options and seed give the same bytes, unless `--time-limit` ends a search early.
- MODEL is a `.onnx` or `.layers.json` file. PLAN is `plan.json` or its directory.
- A time is a number of seconds, or a number with its unit: `200ms`, `90s`, `10min`, `2h`.

| exit status | meaning |
| --- | --- |
| 0 | done |
| 1 | wrong usage or bad input: one diagnostic on stderr, nothing is written |
| 2 | no plan meets the constraints (stdout says why), or a check failed |
| 3 | internal error; please report it |
TEXT
for command in import profile compile evaluate inspect diff replan verify simulate schedule run export calibrate devices links explain completion; do
  printf '\n## heterplan %s\n\n```\n' "$command"
  "$heterplan" "$command" --help | sed -e 's/[[:space:]]*$//' -e '/./,$!d' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
  printf '```\n'
done
cat <<'TEXT'

## Environment

`HETERPLAN_PROFILES`
: folder with `devices/`, `links/` and `clusters/` (default: the one of the installation)

`HETERPLAN_PYTHON`
: Python with torch for `run` and `profile` (default: the `.venv` of the build, then `python3`)
TEXT
