#!/usr/bin/env bash
# Prints docs/diagnostics.md from the binary: scripts/diagnostics-doc.sh > docs/diagnostics.md. A golden test
# holds the document to this.
set -euo pipefail
heterplan=${HETERPLAN_BINARY:-build/bin/heterplan}

cat <<'TEXT'
# Diagnostics

Every error has a code, a place, and what is accepted instead. A code never changes its meaning. `heterplan explain HP1212` prints what stands
here. HP10xx are of files and syntax, HP11xx of ONNX, HP12xx of clusters, HP13xx of layers, profiles and plans, HP14xx of cost, HP15xx of
searches and schedules, HP16xx of instructions and simulation, HP17xx of generated code, HP18xx of usage.

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
