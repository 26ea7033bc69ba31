"""A cluster whose devices are so slow that plans use all of them."""

from __future__ import annotations

_TEXT = """
name: test
device_types:
  a: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 2MFLOP/s, bandwidth: 2MB/s}
  b: {kind: cpu, memory: 4GiB, price_per_hour: 1, fp32: 1MFLOP/s, bandwidth: 1MB/s}
nodes:
  - {name: here, devices: DEVICES, link: {bandwidth: 1000GB/s, latency: 1ns}}
"""


def slow_cluster(devices: str) -> str:
    """The text of its file; `devices`: of its one node, as in `{a: 1, b: 1}`."""
    return _TEXT.replace("DEVICES", devices)
