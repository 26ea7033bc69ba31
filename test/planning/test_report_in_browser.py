"""Reports at 400, 800 and 1280 px in Chromium: nothing is cut, and the console stays empty.

Needs Chromium: the one that $HETERPLAN_CHROMIUM names, or one on the path; else the tests are skipped.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BINARY, SOURCE

NAMES = ("chromium-headless-shell", "headless_shell", "chromium", "chromium-browser", "google-chrome")
BROWSER = os.environ.get("HETERPLAN_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
WIDTHS = (400, 800, 1280)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")

# Finds elements beyond the right edge of the page that no ancestor can scroll into view, and
# elements that hide a part of their content.
SCRIPT = """
function scrolls(element) {
  for (let up = element; up; up = up.parentElement)
    if (/auto|scroll/.test(getComputedStyle(up).overflowX)) return true;
  return false;
}
function problems(page) {
  const found = [], root = page.document.scrollingElement, width = root.clientWidth;
  if (root.scrollWidth > width) found.push(`the page is ${root.scrollWidth} px wide`);
  for (const each of page.document.body.querySelectorAll('*')) {
    const name = each.tagName + '.' + (each.getAttribute('class') || '') + ' ' + each.textContent.slice(0, 40);
    const box = each.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1) && !scrolls(each)) found.push(`${name} ends at ${box.right} px`);
    const hidden = getComputedStyle(each).overflowX == 'hidden' && !each.ownerSVGElement && each.textContent.trim();
    if (hidden && each.scrollWidth > each.clientWidth + 1) found.push(`${name} hides its content`);
  }
  return found;
}
window.onload = () => {
  const answer = {};
  for (const frame of document.querySelectorAll('iframe')) answer[frame.width] = problems(frame.contentWindow);
  document.getElementById('answer').textContent = JSON.stringify(answer);
};
"""


def look_at(report: Path, folder: Path) -> tuple[dict[str, list[str]], list[str]]:
    """The problems of `report` by width, and the messages on the console."""
    frames = "".join(
        f'<iframe width="{width}" height="1000" srcdoc="{html.escape(report.read_text(), quote=True)}"></iframe>'
        for width in WIDTHS
    )
    page = folder / "page.html"
    page.write_text(f'<meta charset="utf-8"><pre id="answer"></pre>{frames}<script>{SCRIPT}</script>')
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=5000")
    done = subprocess.run([BROWSER, *options, f"--user-data-dir={folder / 'profile'}", "--dump-dom", page.as_uri()],
                          check=True, capture_output=True, text=True, timeout=120)  # fmt: skip
    answer = re.search(r'<pre id="answer">(.+?)</pre>', done.stdout, re.S)
    assert answer, done.stderr
    return json.loads(html.unescape(answer[1])), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


CLUSTER = ("--cluster", "mixed-small")
PLANS = {
    "pipeline": ("test/data/models/resnet50.onnx", *CLUSTER, "--batch", "64", "--alternatives", "2"),
    "tokens": ("test/data/models/bert_base.onnx", *CLUSTER, "--batch", "64", "--pareto", "--pareto-points", "4"),
    "burst": ("test/data/small/branches.onnx", *CLUSTER, "--batch", "32", "--schedule", "burst", "--background",
              SOURCE / "test/data/small/mlp.onnx"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_reports_of_plans_fit_every_screen(name: str, tmp_path: Path) -> None:
    model, *options = PLANS[name]
    subprocess.run([BINARY, "compile", SOURCE / model, *options, "-o", tmp_path / "out"], check=True, capture_output=True)
    found, console = look_at(tmp_path / "out/report.html", tmp_path)
    assert found == {str(width): [] for width in WIDTHS}
    assert console == []


def test_reports_of_schedules_fit_every_screen(tmp_path: Path) -> None:
    jobs = SOURCE / "test/golden/Inputs/schedule"
    subprocess.run([BINARY, "schedule", jobs / "three.yaml", "--cluster", "mixed-small", "-o", tmp_path / "out"],
                   check=True, capture_output=True, cwd=SOURCE / "test/data/small")  # fmt: skip
    found, console = look_at(tmp_path / "out/report.html", tmp_path)
    assert found == {str(width): [] for width in WIDTHS}
    assert console == []
