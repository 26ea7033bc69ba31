"""The report on a telephone: what is wider than the page scrolls in a box of its own."""

from __future__ import annotations

import html
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import BINARY, CLUSTERS, MODELS, SOURCE
from test_report_in_browser import BROWSER

HAND = SOURCE / "test/data/hand"
CLICKS = {
    "schemaVersion": "1.0", "model": "clicks",
    "layers": [{"name": "embed", "parameters": ["rows"], "parameterBytes": 64e6, "forwardFlops": 1e3,
                "tables": [{"parameter": "rows", "rows": 1e6, "columns": 16, "lookups": 4}]}],
}  # fmt: skip
# Together they have all that a report may have: tables of stages, checks, sparse tables and fits, a
# timeline, a Pareto front.
PLANS = {
    "pipeline": ("chain.layers.json", "pair.yaml", "--batch", "16", "--micro-batches", "4"),
    "tables": ("clicks.layers.json", "local-cpu", "--batch", "64"),
    "steady-state": ("chain.layers.json", "pair.yaml", "--batch", "16", "--iteration-model", "steady-state"),
    "pareto": ("chain.layers.json", "pair.yaml", "--batch", "16", "--pareto", "--pareto-points", "3"),
}  # fmt: skip


@pytest.fixture(scope="module", params=PLANS)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model, cluster, *options = PLANS[request.param]
    folder = tmp_path_factory.mktemp("report")
    (folder / "clicks.layers.json").write_text(json.dumps(CLICKS))
    inputs = [HAND / model if (HAND / model).exists() else folder / model]
    inputs += ["--cluster", HAND / cluster if (HAND / cluster).exists() else cluster]
    if model == "chain.layers.json":
        inputs += ["--profile", HAND / "chain.profile.json"]
    subprocess.run([BINARY, "compile", *inputs, *options, "-o", folder / "out"], check=True, capture_output=True)
    page = subprocess.run([BINARY, "inspect", folder / "out", "--format", "html"], check=True, capture_output=True)
    assert page.stdout.startswith(b"<!DOCTYPE html>")
    return folder / "out/report.html"


class Page(HTMLParser):
    """Which tables and drawings are in no box that scrolls; rules of the style sheet."""

    EMPTY = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.loose: list[str] = []
        self.boxed = 0
        self.feed(text)
        style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
        self.rules = dict(re.findall(r"^([\w.]+) \{([^}]*)\}", style, re.M))

    def handle_starttag(self, tag: str, attributes: list) -> None:
        kind = dict(attributes).get("class") or ""
        if tag in ("table", "svg"):
            inside = any("wide" in each.split() for _, each in self.open)
            self.boxed += inside
            self.loose += [] if inside else [tag]
        if tag not in self.EMPTY:
            self.open.append((tag, kind))

    def handle_startendtag(self, tag: str, attributes: list) -> None:
        """Parts of drawings."""

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass


def test_what_is_wide_scrolls_by_itself(report: Path) -> None:
    page = Page(report.read_text())
    assert page.boxed >= 3 and page.loose == []
    assert "overflow-x: auto" in page.rules[".wide"]
    assert "overflow-wrap: anywhere" in page.rules["body"]  # of every word outside of these boxes


# What a browser finds on the page: its width, that of what is on it, that of the widest box; which colours.
PROBE = """<script>onload = () => { const root = document.documentElement, look = getComputedStyle(document.body);
  const boxes = [...document.querySelectorAll('.wide')].map(box => box.scrollWidth);
  for (const fold of document.querySelectorAll('details')) fold.open = true;
  document.title = JSON.stringify({shown: root.clientWidth, needed: root.scrollWidth, boxed: Math.max(...boxes),
    dark: matchMedia('(prefers-color-scheme: dark)').matches, ink: look.color, paper: look.backgroundColor}); }</script>"""
SCHEMES = {"light": "1", "dark": "0"}


def luminance(colour: str) -> float:
    """The luminance of `rgb(r, g, b)`, as WCAG 2 defines it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on the PATH")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [400, 800, 1280])
def test_page_fits_and_can_be_read(report: Path, width: int, scheme: str, tmp_path: Path) -> None:
    # A window may not be as narrow as a telephone; a frame may.
    (tmp_path / "page.html").write_text(report.read_text().replace("</body>", PROBE + "</body>"))
    (tmp_path / "frame.html").write_text(
        f"<iframe id='f' src='page.html' width='{width}' height='800' style='border:0'></iframe>"
        "<script>setInterval(() => document.title = document.getElementById('f').contentDocument.title, 50)</script>")
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'user'}", "--virtual-time-budget=3000", "--window-size=1600,1000", "--dump-dom",
         f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", (tmp_path / "frame.html").as_uri()],
        capture_output=True, text=True, timeout=120)  # fmt: skip
    title = re.search(r"<title>(\{.*\})</title>", done.stdout)
    assert title, done.stdout[:500] + done.stderr[-2000:]
    found = json.loads(html.unescape(title[1]))
    assert found["needed"] <= found["shown"] <= width
    assert width > 400 or found["boxed"] > found["shown"]  # a table is wider than the page, and scrolls in its box
    assert found["dark"] == (scheme == "dark")
    dark, light = sorted(map(luminance, (found["ink"], found["paper"])))
    assert (light + 0.05) / (dark + 0.05) > 7
    assert "CONSOLE" not in done.stderr


def test_page_of_a_thousand_devices_is_small(tmp_path: Path) -> None:
    cluster = (CLUSTERS / "homogeneous-v100-32.yaml").read_text()
    (tmp_path / "large.yaml").write_text(re.sub(r"count: \d+", "count: 128", cluster))
    command = [BINARY, "compile", MODELS / "resnet50.onnx", "--cluster", tmp_path / "large.yaml"]
    subprocess.run([*command, "--batch", "16384", "-o", tmp_path / "out"], check=True, capture_output=True)
    page = (tmp_path / "out/report.html").read_text()
    assert "<summary>1024 ranks</summary>" in page
    assert len(page) < 3e6
    # Light: nothing runs, and there are few elements to lay out while the ranks are folded away.
    assert "<script" not in page
    outside = re.sub(r"<details>.*?</details>", "", page, flags=re.S)
    assert outside.count("<") < 5000
