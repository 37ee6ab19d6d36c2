"""The page of other people's names: each name of ours on it is one, and each that people look for is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simulations.cli.list import FAMILIES
from simulations.command_line import main

PAGE = (Path(__file__).parent.parent / "docs" / "names.md").read_text(encoding="utf-8")
OURS = sorted(
    set(re.findall(r"`([^`]+)`", "".join(row.split("|")[2] for row in PAGE.splitlines() if row.count("|") == 3)))
)
KINDS = {kind for family in FAMILIES.values() for kind in family}


@pytest.mark.parametrize("name", OURS)
def test_every_name_of_ours_on_the_page_is_one(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name in KINDS:
        return
    if name.startswith("fedpriv "):
        with pytest.raises(SystemExit) as end:
            main([*name.split()[1:2], "--help"])
        assert end.value.code == 0
        return
    table, _, setting = name.partition(".")
    tables = {"attack", "byzantine", "clip", "dropped", "noise"}  # settings of kinds, and a table by itself
    if setting:
        assert main(["list", table]) == 0
        assert re.search(rf"^ *{setting}\b", capsys.readouterr().out, flags=re.MULTILINE)
    else:
        assert name in tables


@pytest.mark.parametrize(
    "sought", ["FedAvg", "FedAdam", "FedProx", "DP-FedAvg", "SecAgg", "LDP", "DP-SGD", "trimmed mean"]
)
def test_what_people_look_for_is_on_the_page(sought: str) -> None:
    assert sought in PAGE
