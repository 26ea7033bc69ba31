#!/usr/bin/env bash
# Prints docs/experiments/gaps.md: scripts/bench-gaps.sh > docs/experiments/gaps.md
set -euo pipefail
cd "$(dirname "$0")/.."
cat <<'TEXT'
# How far plans are proven to be from the optimum

`make bench-gaps` writes this file. Each row uses default settings, one process after another;
devices, links and prices are those of the catalogue, and times are modelled. The columns:

- "gap": the most that the plan may be worse than the best one of its search space;
  [formats.md](../formats.md) lists the spaces.
- "half": least cost at half the highest throughput; "budget": highest throughput for half the
  money.
- "CPU": seconds, reading the model and writing the plan included.

## Models

TEXT
python3 bench/gaps.py
cat <<'TEXT'

## Chains and large clusters

`gpt-N`: N blocks. `TYPESxDEVICES`: so many device types with so many devices each, eight in a node. `growth-1`: the same chain on ever
more devices, and ever longer chains on the same.

TEXT
python3 bench/chains.py
cat <<'TEXT'
## Every cut of a branched network

"best": dynamic programming over all cuts of the same order, which shares no code with the planner; "more": what the plan takes beyond it.
`bench/branched.py` prints this.

TEXT
python3 bench/branched.py
cat <<'TEXT'

## Cut short

`bench/anytime.py` prints this: the gap that is proven within `--time-limit` 1, 3 and 10, and by how many seconds of processor time the whole command
exceeded the limit. Checking and writing a plan is included; it takes a second or two for a thousand ranks.

TEXT
python3 bench/anytime.py
