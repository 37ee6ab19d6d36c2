"""Hooks of `mkdocs build`: pages that lie outside docs/, and the reference, a page for each public package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from tools.tables import FOLDERS, ROOT, described

OUTSIDE = {  # what is a page of the site, and lies elsewhere: by its name there
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
    "examples.md": "examples/README.md",
}
SHOWN = {path.name: path for path in sorted((ROOT / "examples").iterdir()) if path.suffix in (".py", ".toml")}
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")


def on_config(config: Any) -> Any:
    """Name the reference's pages in the navigation."""
    config.nav.insert(-2, {"Reference": [{folder: list(pages(folder))} for folder in FOLDERS]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not files of docs/."""
    for name, source in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=moved(text, ROOT / source) + sources(name)))
    for folder in FOLDERS:
        for name, text in pages(folder).items():
            files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links that leave docs/ to where the site has what they name."""
    path = ROOT / "docs" / page.file.src_uri
    return moved(markdown, path) if path.exists() else markdown


def moved(text: str, source: Path) -> str:
    """A page's text with its links as the site has them, seen from where the site has the page."""
    places = {(ROOT / path).resolve(): name for name, path in OUTSIDE.items()}
    places |= {path.resolve(): f"examples.md#{name.replace('.', '')}" for name, path in SHOWN.items()}
    inside = ROOT / "docs" in source.parents
    up = "../" * (len(source.relative_to(ROOT / "docs").parts) - 1) if inside else ""

    def led(link: re.Match[str]) -> str:
        target = (source.parent / link[2]).resolve()
        if target in places:
            return f"{link[1]}{up}{places[target]}{link[3]}"
        if not inside and ROOT / "docs" in target.parents:
            return f"{link[1]}{target.relative_to(ROOT / 'docs').as_posix()}{link[3]}"
        return link[0]

    return LINK.sub(led, text)


def sources(name: str) -> str:
    """The examples themselves, below the page that lists them."""
    if name != "examples.md":
        return ""
    shown = [
        f"\n## {file}\n\n```{path.suffix[1:]}\n{path.read_text(encoding='utf-8')}```\n" for file, path in SHOWN.items()
    ]
    return "".join(shown).replace("```py\n", "```python\n")


def pages(folder: str) -> dict[str, str]:
    """The pages of a folder's reference by their names: one for each package or module on its landing."""
    found: dict[str, list[str]] = {}
    for name in described(folder):
        parts = name.split(".")
        if len(parts) > 1 and not any(part.startswith("_") for part in parts):
            found.setdefault(parts[1], []).append(name)
    return {
        f"reference/{folder}.{own}.md": f"# {folder}.{own}\n\n" + "\n\n".join(f"::: {name}" for name in names) + "\n"
        for own, names in found.items()
    }
