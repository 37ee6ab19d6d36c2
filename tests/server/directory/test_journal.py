"""A round that a kill left charged and not saved: asked again for nothing by what asked it, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from server.directory.journal import Journal

LOSS = f"{__name__}:Squares"
EVERY = np.arange(4)


class Squares:
    """A loss of one's own."""

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs * outputs).sum(1)


def journal(directory: Path, *more: str) -> Journal:
    words = ["clients.count=4", f"training.loss={{kind='{LOSS}'}}", *more]
    return Journal(directory, study_file.parsed_study("data.kind = 'Digits'\nrun.rounds = 9", overrides=words), None)


def asked(directory: Path, model: str, evaluates: bool, *more: str) -> int:
    """How many messages and answers client 0 is charged for after this question, the ledger opened anew."""
    own = journal(directory, *more)
    try:
        own.charge(1, EVERY, again=False, model=model, evaluates=evaluates)
        return sum(int(each[0]) for each in own.given())
    finally:
        own.close()


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_round_is_asked_again_by_the_same_code_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluates: bool
) -> None:
    assert [asked(tmp_path, "a", evaluates) for _ in range(2)] == [1, 1]
    monkeypatch.setattr(Squares, "__call__", lambda _, outputs, labels: (outputs * outputs).sum(1) * 2)
    with pytest.raises(FedprivError, match="round 1 has asked already, by another model, code, library or device"):
        asked(tmp_path, "a", evaluates)


def test_messages_of_a_round_are_asked_again_with_the_same_model_alone(tmp_path: Path) -> None:
    asked(tmp_path, "a", False)
    with pytest.raises(FedprivError, match="round 1 has asked already"):
        asked(tmp_path, "b", False)
    asked(tmp_path, "a", True)
    assert asked(tmp_path, "b", True) == 3  # another model's answers are under other noise


def test_noise_that_cannot_be_drawn_again_is_charged_again_whatever_asks(tmp_path: Path) -> None:
    fresh = "privacy.noise=cryptographic"
    assert [asked(tmp_path, model, False, fresh) for model in "aab"] == [1, 2, 3]


def test_a_ledger_that_does_not_say_what_asked_is_read_and_not_asked_again(tmp_path: Path) -> None:
    asked(tmp_path, "a", False)
    ledger = tmp_path / "ledger.jsonl"
    head, line = ledger.read_text().splitlines()
    ledger.write_text(head + "\n" + line[: line.index(',"made"')] + "}\n")
    own = journal(tmp_path)
    assert own.given()[0].tolist() == [1, 1, 1, 1]
    own.close()
    with pytest.raises(FedprivError, match="round 1 has asked already"):
        asked(tmp_path, "a", False)
