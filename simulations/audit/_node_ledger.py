"""A node's ledger as an audit reads it: its lines, and the partition that it is of. It is never written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedpriv.errors import FedprivError


def lines_of(file: Path, after: int = 0) -> list[dict[str, Any]]:
    """The lines of a node's ledger file, as tables, after so many; half a line that a kill has left is no line."""
    *whole, last = file.read_text(encoding="utf-8").split("\n")
    found = []
    for number, line in enumerate(([*whole, last] if last else whole)[after:], after + 1):
        try:
            found.append(own := json.loads(line))
            if not isinstance(own, dict):
                raise ValueError("no table")
        except ValueError as error:
            if number > len(whole):
                break
            raise FedprivError(f"{file}: damaged ledger (line {number}: {error})") from None
    return found


def place_of(file: Path) -> tuple[int, int]:
    """Partition p of P that a node hosts, as (p, P): what the newest line of its ledger file that says so says."""
    try:
        found = [line["place"] for line in lines_of(file) if "place" in line]
        own, of = map(int, found[-1])
        if 0 <= own < of:
            return own, of
        raise ValueError(f"place {found[-1]}, where a node is partition p of P, 0 ≤ p < P")
    except FedprivError:
        raise
    except OSError as error:
        why = "this node has no ledger yet" if isinstance(error, FileNotFoundError) else str(error.strerror)
        raise FedprivError(f"{file}: {why}: fedpriv deploy up makes it, and so does a node's first round") from None
    except IndexError:
        raise FedprivError(f"{file}: damaged ledger (no line says which partition it is of)") from None
    except (ValueError, TypeError) as error:
        raise FedprivError(f"{file}: damaged ledger ({error})") from None
