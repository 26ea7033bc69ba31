#!/usr/bin/env bash
# `make demo`: plans ResNet-50 for a bundled mixed cluster, then measures a smaller model and the link on
# this machine, plans it for its cores, trains it for eight steps and compares predicted with measured. The
# data are the same in every step (--data fixed), so that the loss can fall. At last a small CNN learns pictures.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly heterplan=build/bin/heterplan out=build/demo
rm -rf "$out"
mkdir -p "$out"

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi
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

title "3. MobileNet v2 on the cores of this machine: measured, planned, trained for eight steps"
show "$heterplan" profile --machine --link loopback --time-budget 20s -o "$out/machine.yaml"
show "$heterplan" profile test/data/models/mobilenet_v2.onnx --device cpu --engine torch \
  --batches 4,8 --time-budget 60 -o "$out/mobilenet.profile.json"
show "$heterplan" compile test/data/models/mobilenet_v2.onnx --cluster "$out/machine.yaml" \
  --profile "$out/mobilenet.profile.json" "$out/machine.links.profile.json" --batch 8 -o "$out/mobilenet"
show "$heterplan" run "$out/mobilenet" --steps 8 --pin --data fixed --lr 1

title "4. A small CNN on pictures that it can learn, judged by others that it has not seen"
show "$heterplan" profile test/data/small/cnn.onnx --device cpu --engine torch --batches 16,32 --time-budget 20 -o "$out/cnn.profile.json"
show "$heterplan" compile test/data/small/cnn.onnx --cluster "$out/machine.yaml" --batch 32 --optimizer momentum \
  --profile "$out/cnn.profile.json" "$out/machine.links.profile.json" -o "$out/cnn"
PYTHONPATH=bench show "$heterplan" run "$out/cnn" --steps 80 --pin --lr 0.1 --lr-schedule cosine --data task_data:PICTURES \
  --evaluate-every 40 --evaluation-data task_data:UNSEEN_PICTURES --evaluation-steps 8 --metric accuracy

title "Where to look next"
cat <<EOF
  $out/mobilenet/report.html   the plan that was just trained, in a browser; $out/resnet50/report.html: the large one
  $out/mobilenet/model.py      its stages as PyTorch modules
  $heterplan inspect $out/mobilenet --format trace > trace.json   its predicted timeline, for Perfetto
  $heterplan compile model.onnx --cluster mixed-small -o out/   your own model; docs/guide.md goes on from here
EOF
