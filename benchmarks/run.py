"""`python -m benchmarks.run`: measure, print, and write docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import numpy
import scipy

from benchmarks import accounting, aggregation, encoding, masking, per_record, rounds, startup, sweep, voting

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"

ROOMS = {
    "Privacy accounting": accounting, "Encoding": encoding, "Votes and order statistics": voting,
    "Aggregation": aggregation, "Gradients of single records": per_record, "A round": rounds,
    "A masked sum": masking, "A sweep": sweep, "Start-up": startup,
}  # fmt: skip

Rows = Sequence[Mapping[str, object]]


def main() -> None:
    """Every table there is, on the screen and on the page."""
    sections = [(title, (room.__doc__ or "").strip(), room.rows()) for title, room in ROOMS.items()]
    for title, _, rows in sections:
        print(f"\n{title}\n\n{table(rows)}")
    PAGE.write_text(page(sections), encoding="utf-8")
    print(f"\nwrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE.name}")


def page(sections: Sequence[tuple[str, str, Rows]]) -> str:
    """The whole of docs/benchmarks.md."""
    measured = f"Measured by `make bench` on {date.today():%d %B %Y}: {machine()}. Do not edit: run it again."
    tables = (f"## {title}\n\n{about}\n\n{table(rows)}" for title, about, rows in sections)
    return "\n\n".join(["# Benchmarks", measured, *tables]) + "\n"


def machine() -> str:
    """What the numbers depend on, and nothing that names this machine."""
    peers = ", ".join(f"{name} {number}" for name, number in accounting.versions().items())
    return (
        f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {numpy.__version__}, scipy {scipy.__version__}, {peers}"
    )


def processor() -> str:
    """The processor's model, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def table(rows: Rows) -> str:
    """Rows as a Markdown table, padded so that it reads as plain text too."""
    if not rows:
        return "nothing measured"
    columns = list(rows[0])
    cells = [columns, *([str(row.get(column, "–")) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in cells)


if __name__ == "__main__":
    main()
