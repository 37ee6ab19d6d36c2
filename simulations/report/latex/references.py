"""The papers that rules, attacks, mechanisms and data sets come from, and which of them a study has used.

`papers.bib` says each once; the field `kinds` of an entry names the classes that it is cited for.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ENTRY = re.compile(r"^@\w+\{(\S+),\n.*?^\}\n", re.MULTILINE | re.DOTALL)
KINDS = re.compile(r"^  kinds = \{([^}]*)\},\n", re.MULTILINE)
OURS = "fedpriv"  # the entry of this project, which every paper cites that has its numbers
ACCOUNTING = "accounting"  # what every ε is cited for


@dataclass(frozen=True)
class Reference:
    """One entry of a bibliography."""

    key: str  # what \\cite calls it
    kinds: tuple[str, ...]  # the classes that it is cited for
    bibtex: str  # the entry itself

    def text(self, used: Iterable[str]) -> str:
        """The entry as a bibliography has it, below a line that says for which of these kinds."""
        named = [kind for kind in self.kinds if kind in used]
        return (f"For {', '.join(named)}:\n" if named else "") + self.bibtex


@cache
def all_references() -> tuple[Reference, ...]:
    """Every paper that fedpriv names for something that a study can choose, in the order of `papers.bib`."""
    text = (Path(__file__).parent / "papers.bib").read_text(encoding="ascii")
    found = []
    for entry in ENTRY.finditer(text):
        kinds = KINDS.search(entry[0])
        found.append(Reference(entry[1], tuple(kinds[1].split()) if kinds else (), KINDS.sub("", entry[0])))
    return tuple(found)


def references_of(used: Iterable[str]) -> list[Reference]:
    """The papers that these kinds are cited for, and this project's own entry: a report's bibliography."""
    names = set(used)
    return [each for each in all_references() if each.key == OURS or names & set(each.kinds)]


def bibtex_file(used: Sequence[str]) -> str:
    """A BibTeX file of the papers of these kinds; ahead of it, those that no paper is cited for."""
    found = references_of(used)
    without = [kind for kind in used if not any(kind in each.kinds for each in found)]
    head = f"Of this project, or nobody's: {', '.join(without)}.\n\n" if without else ""
    return head + "\n".join(each.text(used) for each in found)


def kinds_used(study: str, private: bool) -> list[str]:
    r"""What a study has chosen, by its resolved TOML text, in words that papers are cited for.

    >>> kinds_used('attack.kind = "Ipm"\nclients.byzantine = 1\nprivacy = {trust = "local", mechanism.kind = "Cldp"}',
    ...            private=True)
    ['Ipm', 'Cldp', 'local', 'accounting']

    An attack by nobody is not used.

    >>> kinds_used('attack.kind = "Ipm"\nclients.byzantine = 0', private=False)
    []
    """
    try:
        tables = tomllib.loads(study)
        nobody = not tables.get("clients", {}).get("byzantine")
        chosen = _kinds({name: own for name, own in tables.items() if not (nobody and name == "attack")})
        trust = [tables["privacy"]["trust"], ACCOUNTING] if private else []
    except (ValueError, KeyError, TypeError, AttributeError):  # of a study that cannot be read nothing is known
        return []
    return list(dict.fromkeys([*chosen, *trust]))


def _kinds(table: object) -> Iterable[str]:
    """The kinds that nested tables of a study name, wherever they stand in it."""
    if isinstance(table, dict):
        if isinstance(table.get("kind"), str):
            yield table["kind"]
        table = list(table.values())
    if isinstance(table, list):
        for each in table:
            yield from _kinds(each)
