#!/usr/bin/env bash
# Prints docs/cli.md from the --help of the binary: scripts/cli-doc.sh > docs/cli.md. A golden test
# holds the document to this.
set -euo pipefail
heterplan=${HETERPLAN_BINARY:-build/bin/heterplan}

cat <<'TEXT'
# The command line

`heterplan <command>`. What people read goes to stdout as a table; `--json` gives the same facts as JSON. Diagnostics go to stderr,
progress too, and only on a terminal. There are no colours. The same inputs, options and seed give the same bytes, unless `--time-limit` cuts a search short.

| exit status | means |
| --- | --- |
| 0 | done |
| 1 | wrong usage or bad input: one diagnostic on stderr, nothing written |
| 2 | an answer, but not the one asked for: no plan meets the limits (stdout says why), or a check failed |
| 3 | internal error, please report it |

MODEL is `.onnx` or `.layers.json`. PLAN is `plan.json` or the directory that holds it. [guide.md](guide.md) shows the commands at work.
TEXT
for command in import profile compile evaluate inspect diff verify simulate schedule run export calibrate explain completion; do
  printf '\n## heterplan %s\n\n```\n' "$command"
  "$heterplan" "$command" --help | sed -e 's/[[:space:]]*$//' -e '/./,$!d' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
  printf '```\n'
done
cat <<'TEXT'

`replan` is announced and answers HP1802.

## Environment

| variable | is |
| --- | --- |
| `HETERPLAN_PROFILES` | the folder with `devices/`, `links/` and `clusters/`; otherwise the one beside the executable |
| `HETERPLAN_PYTHON` | the Python (with torch) that `run` and `profile` use; otherwise the `.venv` beside the build, then `python3` |
TEXT
