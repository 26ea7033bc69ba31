#!/usr/bin/env bash
# Prints docs/diagnostics.md from the binary: scripts/diagnostics-doc.sh > docs/diagnostics.md. A golden test
# holds the document to this.
set -euo pipefail
heterplan=${HETERPLAN_BINARY:-build/bin/heterplan}

cat <<'TEXT'
# Diagnostics

Every error has a code and a place, and names what is accepted. A code never changes its meaning.
`heterplan explain HP1212` prints one row of this table.

| codes | subject |
| --- | --- |
| HP10xx | files and syntax |
| HP11xx | ONNX models |
| HP12xx | cluster files |
| HP13xx | layers, profiles and plans |
| HP14xx | costs |
| HP15xx | searches and schedules |
| HP16xx | instructions and simulation |
| HP17xx | generated code |
| HP18xx | usage |

| code | means | to mend it |
| --- | --- | --- |
TEXT
"$heterplan" explain | while read -r code _; do
  "$heterplan" explain "$code" | sed -e 's/|/\\|/g' | {
    read -r meaning
    read -r remedy
    echo "| $code | ${meaning#"$code": } | ${remedy#To mend it: } |"
  }
done
