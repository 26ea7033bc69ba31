"""A sample of the zoo, of plain PyTorch: exported in four ways, each equal or refused as the list
says. The whole is `make zoo`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from entry import WAYS  # noqa: E402
from judge import BINARY, judge  # noqa: E402
from plain import PLAIN  # noqa: E402

pytestmark = pytest.mark.skipif(not BINARY.is_file(), reason=f"{BINARY} is not built")

FIXED = {"ts-fixed", "dynamo-fixed"}
# Refused where the batch is fixed: rows are picked by their place among all tokens.
REFUSED = {"last-token": FIXED, "first-row": FIXED}
SAMPLE = ("mlp", "unet", "lstm", "class-token", "rotary-attention", "autoencoder-tied", "last-token",
          "token-types", "standardized")
WORST = {"ts-symbolic", "ts-fixed", "dynamo-fixed"}


@pytest.mark.parametrize("name", SAMPLE)
def test_model_is_equal_or_refused(name: str, tmp_path: Path) -> None:
    for way in [way for way in WAYS if way in WORST]:
        verdict = judge(PLAIN[name], tmp_path, way)
        expected = "refused" if way in REFUSED.get(name, ()) else "equal"
        assert verdict.state == expected, (way, verdict)
        assert not verdict.faults, (way, verdict)
        if expected == "refused":
            assert "export it with a symbolic batch" in verdict.reason
