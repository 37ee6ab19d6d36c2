"""Ledgers of a Flower app's nodes: where they stand, what is refused there, and how they are read."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from fedpriv.accounting.ledger import Budget
from fedpriv.errors import FedprivError
from fedpriv.flower import Private, private, read_ledgers
from fedpriv.mechanisms import StochasticSign
from tests.flower_apps import Nodes, flower_identity, softmax_app, softmax_model

__all__ = ["flower_identity"]
SIGN = StochasticSign(clip=1, peak=0.25, scale=1)
WORDS = "StochasticSign clip=1 peak=.25 scale=1"


def ran(app: ClientApp, count: int = 2, rounds: int = 1, node: Any = None, **run: Any) -> Nodes:
    grid = Nodes(app, count, **run)
    grid.config = node or {}
    inner = FedAvg(min_available_nodes=1, min_train_nodes=1)
    Private(inner, SIGN).start(grid, softmax_model(), num_rounds=rounds)
    return grid


@pytest.mark.parametrize("owner", [True, False])
def test_a_budget_on_a_ledger_that_a_run_names_is_refused_for_the_next_run_may_name_another(
    tmp_path: Path, owner: bool
) -> None:
    run = {"fedpriv.mechanism": WORDS, "fedpriv.ledger": str(tmp_path / "a")}
    app = softmax_app([private(budget=None if owner else Budget(12.0, 1e-5))])
    grid = ran(app, node={"fedpriv.epsilon": 12.0} if owner else {}, **run)
    assert all("a budget is of one ledger" in each.error.reason for each in grid.replies)
    assert not (tmp_path / "a").exists()
    grid = ran(app, node={"fedpriv.epsilon": 12.0, "fedpriv.ledger": str(tmp_path / "mine")}, **run)
    assert not any(each.has_error() for each in grid.replies)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"fedpriv.epsilon": 8.0}, "the run's configuration: 'fedpriv.epsilon' is unknown here"),
        ({"fedpriv.mechansim": WORDS}, "did you mean 'fedpriv.mechanism'"),
        (
            {"fedpriv.mechanism": 5, "fedpriv.ledger": "/tmp/none"},
            "a mechanism, its words or a Channel must be given, got 5",
        ),
        ({"fedpriv.mechanism": WORDS, "fedpriv.ledger": "/tmp/" + "a" * 5000}, "cannot be kept there"),
        ({"fedpriv.mechanism": WORDS, "fedpriv.ledger": 5}, "ledger must be the name of a place"),
        ({"fedpriv.mechanism": WORDS, "fedpriv.ledger": ""}, "ledger must be the name of a place"),
        ({"fedpriv.mechanism": WORDS, "fedpriv.ledger": "/a\0b"}, "ledger must be the name of a place"),
    ],
)
def test_a_runs_configuration_that_cannot_be_meant_is_refused_in_one_line(run: dict[str, Any], message: str) -> None:
    [reply, _] = ran(softmax_app([private()]), **run).replies
    assert message in reply.error.reason


def test_a_directory_is_of_one_number_of_partitions(tmp_path: Path) -> None:
    app = softmax_app([private(SIGN, ledger=tmp_path)])
    ran(app, 2)
    before = read_ledgers(tmp_path)
    grid = ran(app, 20)
    assert all("holds node-" in each.error.reason for each in grid.replies)
    assert "of 2 partitions, and this node is of 20" in grid.replies[0].error.reason
    assert read_ledgers(tmp_path) == before
    assert not any(each.has_error() for each in ran(app, 2).replies)


def test_half_a_line_at_a_ledgers_end_is_no_charge_and_an_empty_file_is_none(tmp_path: Path) -> None:
    ran(softmax_app([private(SIGN, ledger=tmp_path)]), rounds=2)
    before, file = read_ledgers(tmp_path), tmp_path / "node-0" / "ledger.jsonl"
    content = file.read_bytes()
    file.write_bytes(content + content.splitlines(True)[-1][:50])
    assert read_ledgers(tmp_path) == before
    file.write_bytes(content[:-1])  # whole but for its end
    assert read_ledgers(tmp_path) == before
    (tmp_path / "node-7").mkdir()
    (tmp_path / "node-7" / "ledger.jsonl").touch()
    assert read_ledgers(tmp_path)["node-7"].events == ()
    file.write_bytes(b"")  # and answers beside it
    with pytest.raises(FedprivError, match="damaged ledger"):
        read_ledgers(tmp_path)


@pytest.mark.parametrize("place", ["/no/such/place", 5, None, "~nosuch/x", "/a\0b"])
def test_ledgers_are_read_of_a_directory_that_is_there(place: Any) -> None:
    with pytest.raises(FedprivError, match="is no directory"):
        read_ledgers(place)


def test_a_directory_in_a_ledgers_place_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "node-0" / "ledger.jsonl").mkdir(parents=True)
    [failed] = [each for each in ran(softmax_app([private(SIGN, ledger=tmp_path)])).replies if each.has_error()]
    assert "cannot be read (Is a directory): a ledger is a file" in failed.error.reason
    with pytest.raises(FedprivError, match="damaged ledger"):
        read_ledgers(tmp_path)


def test_a_process_that_an_app_leaves_behind_does_not_keep_its_ledger(tmp_path: Path) -> None:
    app, left = ClientApp(mods=[private(SIGN, ledger=tmp_path)]), []

    @app.train()
    def train(message: Message, context: Context) -> Message:
        left.append(multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,), daemon=True))
        left[-1].start()
        return Message(RecordDict({"arrays": message.content["arrays"]}), reply_to=message)

    try:
        grid = ran(app, 1, rounds=2)
    finally:
        for each in left:
            each.kill()
    assert not any(each.has_error() for each in grid.replies)
