"""Pieces of a page in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, for the pages of reproduced tables and figures: its head, then its rows.

    >>> print(markdown_table(["ε", "accuracy"], [["2", "84.0"]]))
    | ε | accuracy |
    | --- | --- |
    | 2 | 84.0 |
    """
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def markdown_bullets(words: Sequence[str]) -> str:
    """A list in Markdown, for the pages of reproduced tables and figures: a bullet for each of `words`.

    >>> print(markdown_bullets(["one", "another"]))
    - one
    - another
    """
    return "\n".join(f"- {line}" for line in words)
