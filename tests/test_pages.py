"""Pages lead where they say: links, anchors and files that they name, and the site that is made of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
SOURCE = re.compile(r"`((?:fedpriv|clients|server|simulations|tests|tools|benchmarks|examples)/[\w/.-]*)`")
TESTS = (ROOT / "docs" / "proofs", ROOT / "docs" / "papers.md")  # pages that name tests by their names


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> set[str]:
    """What a link to a place in a page may name."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.relative_to(ROOT)}: {link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{page.relative_to(ROOT)}: {link}: no such place in it"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    missing = [name for name in SOURCE.findall(prose(page)) if not (ROOT / name).exists()]
    assert not missing


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: any link or reference that leads nowhere fails."""
    pytest.importorskip("mkdocs")
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(place)]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=600
    )
    assert built.returncode == 0, built.stderr
    return place


@pytest.mark.slow
def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > 60
    for page in site.rglob("*.html"):
        fetched = re.findall(
            r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"?(https?:[^\" >]+)", page.read_text("utf-8")
        )
        assert not fetched, page.name
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert not any(re.search(r"url\(\"?https?:|@import", style) for style in styles)


@pytest.mark.slow
def test_the_reference_says_what_a_field_means(site: Path) -> None:
    page = (site / "reference" / "fedpriv.mechanisms.html").read_text(encoding="utf-8")
    assert "A, how little one vote says" in page


@pytest.mark.slow
@pytest.mark.browser
def test_the_site_is_searched_from_disk(site: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium here")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}",
        "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=20000", "--dump-dom",
        f"{(site / 'index.html').as_uri()}?q=StochasticSign",
    ]  # fmt: skip
    page = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    found = re.search(r"md-search-result__meta\">\s*(\d+) matching documents", page)
    assert found, "the search found nothing"
    assert int(found[1]) > 3
