#!/usr/bin/env bash
# Prints docs/operators.md from the tables: scripts/operators-doc.sh > docs/operators.md. A golden
# test holds the document to this.
set -euo pipefail
heterplan=${HETERPLAN_BINARY:-build/bin/heterplan}

cat <<'TEXT'
# Operators

This table lists the support for each ONNX operator: the default domain up to operator set 25, and
the operators of other domains that have rules. The importer first brings older forms of an operator
to its newest one.

| column | meaning of yes |
| --- | --- |
| imports | types and shapes of its results are inferred; `rewritten`: other operators replace it |
| costed | it has a cost formula; other operators count as cheap elementwise work |
| generated | `compile` writes it in PyTorch for the types that PyTorch computes with |
| differentiable | its floating-point results carry gradients |

Without "generated", `compile` refuses a model with the operator (HP1701). Operators of other
domains are imported as opaque operators, and `compile` refuses them.
TEXT
"${heterplan%/*}/operator-table"
