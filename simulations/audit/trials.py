"""What trials are, and those of an audit: block by block, each on disk before the next, so that a kill costs one."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Numbers, Vector
from fedpriv._base.files import replace_file
from fedpriv._base.syntax import code_digest
from fedpriv.accounting.event import Event
from fedpriv.auditing.pairs import repeated_messages
from fedpriv.auditing.statistic import Trials
from fedpriv.errors import FedprivError
from fedpriv.randomness.streams import stream

BLOCKS = 50  # at least, so that there is something to see
COORDINATES = 1 << 24  # a block draws, at most
PACKAGES = ("fedpriv", "clients", "server", "simulations")  # whose code is what is audited


class Scored(NamedTuple):
    """A score for each trial, and a key for each message or release."""

    scores: Vector  # the higher, the more a trial speaks for x
    keys: NDArray[np.uint64]  # the same where two messages are


class Source(Protocol):
    """What is audited, as independent trials."""

    @property
    def event(self) -> Event:
        """The event whose certificate the trials test: all that one unit gives away in all rounds."""

    @property
    def words(self) -> str:
        """What one trial is, in a sentence for audit.json and its readers."""

    @property
    def in_a_tail(self) -> bool:
        """Whether few trials tell x from x′, so that the verdict chooses a threshold on one half of them."""

    @property
    def ranked(self) -> bool:
        """Whether scores take so many values that the verdict goes by their ranks, which tell more than guesses."""

    @property
    def holds(self) -> float | None:
        """μ of the inputs that canaries hold, where it is known: the report has it beside the audited one."""

    @property
    def most(self) -> float | None:
        """The largest share of coins that an attacker can tell from canaries' inputs, if known: more is a fault."""

    @property
    def weight(self) -> int:
        """How many coordinates a trial draws: it decides how many trials are one block on disk."""

    def checks_repeats(self, trials: int) -> bool:
        """Whether honest messages of so many trials never coincide, so that repeats refute the certificate."""

    def scored(self, held: NDArray[np.bool_], numbers: Numbers) -> Scored:
        """Run the trials of these canary numbers, `held` saying who holds x: a score each, and keys of messages."""


class Audited(NamedTuple):
    """What has come of all trials."""

    trials: Trials
    repeated: int | None  # messages that were the same as another; None where honest ones can be
    before: float  # seconds of the blocks that an earlier sitting has left


def conducted_trials(
    source: Source, canaries: int, seed: int, first: int, state: Path, told: Callable[[int], None]
) -> Audited:
    """Run an audit's trials, block by block: canaries are clients from `first` on, each with a fair coin.

    `state` is the directory of the blocks, and `told` hears how many trials are done.
    """
    held = stream(seed, "audit coins").integers(0, 2, canaries).astype(bool)
    size = max(1, min(-(-canaries // BLOCKS), COORDINATES // max(source.weight, 1)))
    journal = _Journal(state, [repr(source), canaries, seed, first, size])
    found, before = list[Scored](), 0.0
    for start in range(0, canaries, size):
        rows = slice(start, min(start + size, canaries))
        numbers = first + np.arange(rows.start, rows.stop)
        block, seconds = journal.block(start, partial(source.scored, held[rows], numbers))
        before += seconds
        found.append(block)
        told(rows.stop)
    keys = np.concatenate([block.keys for block in found])
    repeats = repeated_messages(keys) if source.checks_repeats(canaries) else None
    return Audited(Trials(held, np.concatenate([block.scores for block in found])), repeats, before)


class _Journal:
    """Blocks on disk. Those of another audit are not taken up, nor those of other code: code is what is audited."""

    def __init__(self, directory: Path, facts: list[str | int]) -> None:
        """Open an audit's blocks in a directory, emptied where they are of other facts, or of other code."""
        self._directory = directory
        named, top = directory / "audited", Path(__file__).resolve().parents[2]
        fingerprint = json.dumps([*facts, code_digest(top / package for package in PACKAGES)])
        if not (named.is_file() and named.read_text(encoding="utf-8") == fingerprint):
            forget_trials(directory)
            directory.mkdir(parents=True, exist_ok=True)
            replace_file(named, fingerprint.encode())

    def _file(self, start: int) -> Path:
        """The file of the block of trials that begins with that trial."""
        return self._directory / f"block-{start}.npz"

    def block(self, start: int, scored: Callable[[], Scored]) -> tuple[Scored, float]:
        """The block of trials that begins there, from disk or else run and kept, and the seconds it took before."""
        if (known := self.known(start)) is not None:
            return known
        began = time.monotonic()
        block = scored()
        self.keep(start, block, time.monotonic() - began)
        return block, 0.0

    def known(self, start: int) -> tuple[Scored, float] | None:
        """The block of trials that an earlier sitting kept, and the seconds it took; None where there is none."""
        try:
            with np.load(self._file(start)) as kept:
                return Scored(kept["scores"], kept["keys"]), float(kept["seconds"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError) as error:
            raise FedprivError(f"{self._directory}: damaged ({error}): remove it to begin anew") from None

    def keep(self, start: int, block: Scored, seconds: float) -> None:
        """Write a block of trials to its file, with the seconds it took, so that a killed audit need not redo it."""
        content = io.BytesIO()
        np.savez(content, scores=block.scores, keys=block.keys, seconds=seconds)
        replace_file(self._file(start), content.getbuffer())


def forget_trials(directory: Path) -> None:
    """Remove the blocks of trials from an audit's directory: the audit is done, or they are of another."""
    if directory.is_dir():
        for each in [*directory.glob("block-*.npz"), *directory.glob(".block-*"), directory / "audited"]:
            each.unlink(missing_ok=True)
