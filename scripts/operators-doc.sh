#!/usr/bin/env bash
# Prints docs/operators.md from the tables: scripts/operators-doc.sh > docs/operators.md. A golden
# test holds the document to this.
set -euo pipefail
heterplan=${HETERPLAN_BINARY:-build/bin/heterplan}

cat <<'TEXT'
# Operators

What heterplan knows of each ONNX operator: those of the default domain up to operator set 25, and those of other domains that it has
rules for. Older forms of an operator are first brought to its newest one.

| column | yes means |
| --- | --- |
| imports | types and shapes of its results are inferred; `rewritten`: other operators take its place |
| costed | a formula of its own says what it costs; the others count as cheap elementwise work |
| generated | `compile` writes it in PyTorch, at least for the types that PyTorch computes with; the others are refused (HP1701) |
| differentiable | its floating results carry gradients |

Operators of other domains import as opaque ones, and are refused where code is wanted.
TEXT
"${heterplan%/*}/operator-table"
