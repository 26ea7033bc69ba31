#!/usr/bin/env bash
# The binary starts where no library of CUDA is: it needs none to be loaded.
set -euo pipefail
if ! command -v readelf >/dev/null; then
  echo "skipped: needs readelf"
  exit 77
fi
needed=$(readelf -d "$HETERPLAN_BINARY" | grep NEEDED)
[[ $needed == *libc.so* ]] || { echo "readelf does not list what is needed: $needed"; exit 1; }
if grep -E 'libcuda|libcublas|libcudnn|libnccl|libnv' <<<"$needed"; then
  echo "the binary must not need these"
  exit 1
fi
env -i "$HETERPLAN_BINARY" --version
