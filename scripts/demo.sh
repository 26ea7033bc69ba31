#!/usr/bin/env bash
# `make demo`: plans ResNet-50 for a bundled mixed cluster, then plans a small model for CPU workers
# of this machine, trains it for three steps and compares predicted with measured times.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly heterplan=build/bin/heterplan out=build/demo
rm -rf "$out"
mkdir -p "$out"

if [[ -t 1 ]]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
# Shows a command, then runs it.
show() {
  printf '%s$ %s%s\n' "$dim" "$*" "$plain"
  "$@"
}

title "1. ResNet-50 on CPUs, T4, V100 and A100: the cheapest plan that reaches 3000 samples/s"
show "$heterplan" compile test/data/models/resnet50.onnx \
  --cluster profiles/clusters/mixed-small.yaml --batch 1024 --objective cost --min-throughput 3000 \
  -o "$out/resnet50"

title "2. The plan, checked anew by the SMT solver"
show "$heterplan" verify "$out/resnet50" --model test/data/models/resnet50.onnx \
  --cluster profiles/clusters/mixed-small.yaml

title "3. A small network on CPU workers of this machine: measured, planned, trained for three steps"
show "$heterplan" profile test/data/small/cnn.onnx --device cpu --engine torch \
  --batches 16,64,256 -o "$out/cnn.profile.json"
show "$heterplan" compile test/data/small/cnn.onnx --cluster profiles/clusters/local-cpu.yaml \
  --profile "$out/cnn.profile.json" --batch 256 -o "$out/cnn"
show "$heterplan" run "$out/cnn" --steps 3

cat <<EOF

Next, try your own model: $heterplan compile model.onnx --cluster profiles/clusters/mixed-small.yaml -o out/
EOF
