"""Reports as a browser shows them: nothing to scroll sideways, no attack's name broken, by day and by night.

They run where Chromium is installed (Debian: apt-get install chromium).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_report import ONE_BIT, PEAK_IS_CLIP, write_run
from test_sweep_report import write_sweep

from simulations.command_line import main

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
WIDTHS = (400, 700, 1200, 1280, 1600)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed: no page was looked at in a browser"),
]

# Each width is a frame of that width, all that is folded away opened in it: how far it reaches, said in the title.
FRAMES = """<!DOCTYPE html><title>wait</title><body><script>
const widths = %s, found = {};
for (const width of widths) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 900px; border: 0`;
  frame.onload = () => {
    const page = frame.contentDocument;
    page.querySelectorAll("details").forEach(each => each.open = true);
    found[width] = page.documentElement.scrollWidth;
    for (const each of page.querySelectorAll(".heat span")) {
      const line = parseFloat(frame.contentWindow.getComputedStyle(each).lineHeight);
      if (!/\\s/.test(each.textContent) && each.offsetHeight > 1.5 * line) console.error(`broken: ${each.textContent}`);
    }
    if (Object.keys(found).length == widths.length)
      document.title = widths.map(each => `${each}:${found[each]}`).join(" ");
  };
  frame.src = "%s";
  document.body.append(frame);
}
</script>"""


def seen(page: Path, *, dark: bool = False) -> tuple[dict[int, int], str]:
    """How wide the page is in windows of each width, and what the console said."""
    frames = page.with_name("frames.html")
    frames.write_text(FRAMES % (list(WIDTHS), page.name))
    command = [
        CHROMIUM, "--headless", "--disable-gpu", "--allow-file-access-from-files", "--enable-logging=stderr",
        "--virtual-time-budget=20000", f"--user-data-dir={page.parent / 'browser'}", "--dump-dom", frames.as_uri(),
    ]  # fmt: skip
    command[1:1] = ["--no-sandbox"] if os.geteuid() == 0 else []
    command[1:1] = ["--blink-settings=preferredColorScheme=0"] if dark else []
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120)
    title = re.search(r"<title>([\d: ]+)</title>", outcome.stdout)
    assert title, outcome.stderr[-2000:]
    reach = dict(map(int, each.split(":")) for each in title[1].split())
    return reach, "\n".join(line for line in outcome.stderr.splitlines() if "CONSOLE" in line)


def sideways(page: Path, **how: bool) -> dict[int, int]:
    """The widths at which the page is wider than its window; the console must be silent."""
    reach, console = seen(page, **how)
    assert not console
    assert set(reach) == set(WIDTHS)
    return {width: reached for width, reached in reach.items() if reached > width}


def test_the_page_of_a_sweep_fits_every_window(tmp_path: Path) -> None:
    long = "InputPoisoning attack={kind=OptAlie factor=1.5 knowledge=everything} knowledge=everything"
    axes = {
        "attack": [long, "OutputPoisoning", *(f"Attack{at}" for at in range(1, 9))],
        "aggregation": ["Mean", "Bucketing size=2, Nnm, MultiKrum byzantine=143 kept=20", "an-unbroken-" + 90 * "x"],
        "privacy.epsilon": ["1.0", "4.0", "16.0"],
        "clients.byzantine": ["0.0", "0.1", "0.2", "0.3"],
    }  # fmt: skip

    def told(place: dict[str, str], seed: int) -> object:
        lost = place["attack"] == "Attack3" and place["aggregation"] == "Mean"
        worst = 0.8 if place["attack"] == "OutputPoisoning" else 0.9
        share, epsilon = float(place["clients.byzantine"]), float(place["privacy.epsilon"])
        return "failed" if lost else {"accuracy": worst - share, "epsilon": epsilon, "byzantine": int(30 * share)}

    sweep = write_sweep(tmp_path / "out", axes, told, name="a-name-" + 60 * "y")
    assert main(["report", str(sweep)]) == 0
    page = sweep / "report" / "index.html"
    assert not sideways(page)
    assert not sideways(page, dark=True)


def test_the_page_that_compares_runs_fits_every_window(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "small-peak", done=3, rounds=3),
        write_run(tmp_path / "one-bit", settings=ONE_BIT, done=3, rounds=3),
        write_run(tmp_path / "peak-is-clip", settings=PEAK_IS_CLIP, done=3, rounds=3, name="a longer name than others"),
    ]
    assert main(["report", *map(str, runs)]) == 0
    assert not sideways(runs[0] / "report" / "index.html")


def test_the_page_of_a_run_that_was_audited_fits_every_window(tmp_path: Path) -> None:
    run, rounds = tmp_path / "run", ["--set", "privacy.trust=local", "--set", "run.rounds=2"]
    assert main(["run", "digits", "--driver", "direct", "--quiet", "--out", str(run), *rounds]) == 0
    assert main(["audit", str(run), "--canaries", "300", "--quiet"]) == 0
    assert main(["report", str(run)]) == 0
    page = run / "report" / "index.html"
    assert "What canaries gave away" in page.read_text()
    assert not sideways(page)
    assert not sideways(page, dark=True)


def test_a_page_that_is_too_wide_or_complains_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text("<!DOCTYPE html><div style='width: 900px'>wide</div><script>console.error('oh')</script>")
    reach, console = seen(page)
    assert {width for width, reached in reach.items() if reached > width} == {400, 700}
    assert "oh" in console
