"""Tables in the pages that come from the code: `python -m tools.tables` writes them, a test fails where one is stale.

A page holds a table between two comments, `<!-- begin NAME -->` and `<!-- end NAME -->`; `TABLES` says by name what
stands there. A new table is a function of nothing that returns Markdown, a line in `TABLES`, and the two comments in a
page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from simulations.cli.list import schema_text
from tools import kinds
from tools.kinds import escaped

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("fedpriv", "clients", "server", "simulations")
PLACE = re.compile(r"(<!-- begin ([\w-]+) -->\n)(.*?)(<!-- end \2 -->)", re.DOTALL)


def modules() -> str:
    """Every module of the four folders, with the first line of its docstring."""
    lines = []
    for folder in FOLDERS:
        lines += [f"## {folder}/", "", "| module | what it is for |", "|---|---|"]
        lines += [f"| `{name}` | {escaped(purpose)} |" for name, purpose in described(folder).items()]
        lines += [""]
    return "\n".join(lines)


@cache
def described(folder: str) -> dict[str, str]:
    """The modules of a folder by name, a package before what is in it, each with its purpose in one line."""
    found = {}
    for path in (ROOT / folder).rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        found[name] = words.partition("\n")[0]
    return dict(sorted(found.items()))


TABLES: dict[str, Callable[[], str]] = {
    "modules": modules,
    "study-tables": kinds.study_tables,
    "attacks": kinds.attacks,
    "mechanisms": kinds.mechanisms,
    "feature-maps": kinds.feature_maps,
    "every-setting": kinds.every_setting,
}
SCHEMA = ROOT / "fedpriv" / "studies" / "study.schema.json"


def filled(page: str) -> str:
    """A page with each of its tables as the code has them now."""
    return PLACE.sub(lambda place: f"{place[1]}{TABLES[place[2]]()}{place[4]}", page)


def pages() -> list[Path]:
    """The pages that may hold tables: README.md, CONTRIBUTING.md and all of docs/."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fresh(file: Path) -> str:
    """What a page, or the schema that ships, has to say now."""
    return schema_text() if file == SCHEMA else filled(file.read_text(encoding="utf-8"))


def main() -> None:
    """Write every file whose tables have changed, and name it."""
    for file in [*pages(), SCHEMA]:
        new = fresh(file)
        if new != file.read_text(encoding="utf-8"):
            file.write_text(new, encoding="utf-8")
            print(file.relative_to(ROOT))


if __name__ == "__main__":
    main()
