"""How close an audit comes to a certificate: audits of messages as they leave, and many more drawn from their law.

    python -m benchmarks.audit [--seeds N] [--drawn M] [--canaries 20000|200000] [--kinds KIND …]

650 coordinates, 40 rounds, local trust, δ = 1e-5, clip 1, peak .2, 99%. A share is of μ*, at which G_μ costs the
certified ε; `held` is the share of the inputs themselves, which no number of canaries can pass. Votes of equal chance
have a likelihood ratio that is a function of how many there were, so audits of them can be drawn from a binomial law:
these say how often a target is met. 200,000 canaries are for ε = 1 alone. Seconds are of one core.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from fedpriv.accounting.account import Account
from fedpriv.accounting.calibration import calibrate
from fedpriv.accounting.event import Event
from fedpriv.auditing.laws import symbol_law
from fedpriv.auditing.ranks import Ranks
from fedpriv.auditing.statistic import Trials, mu_of_epsilon
from fedpriv.channel import Channel
from fedpriv.randomness.streams import stream
from fedpriv.trust import Local
from simulations.audit.messages import Messages
from simulations.audit.trials import conducted_trials

DIMENSION, ROUNDS, DELTA, CONFIDENCE = 650, 40, 1e-5, 0.99
CLIP = {"clip": 1.0, "peak": 0.2}
VOTES: dict[str, dict[str, Any]] = {"StochasticSign": CLIP, "Binomial": CLIP | {"trials": 4}}
TERNARY: dict[str, dict[str, Any]] = {"Ternary": CLIP | {"spread": 4.0}}
TARGETS = {(8.0, 20_000): 0.88, (4.0, 20_000): 0.86, (1.0, 20_000): 0.72, (1.0, 200_000): 0.85}


class Case(NamedTuple):
    """A mechanism calibrated to an ε, and so many canaries."""

    kind: str
    epsilon: float
    canaries: int
    source: Messages
    star: float  # μ*

    def share(self, seed: int) -> tuple[float, float]:
        """Audited, of μ*; and the seconds of a core that it took."""
        begun = process_time()
        own = replace(self.source, seed=seed)
        with tempfile.TemporaryDirectory() as state:
            found = conducted_trials(own, self.canaries, seed, DIMENSION, Path(state), lambda _: None)
            mu = Ranks(found.trials).mu(CONFIDENCE)
        return mu / self.star, process_time() - begun

    def met(self, target: float, drawn: int) -> float:
        """How many of so many audits, drawn from the law of votes, show at least so much: theirs reject that μ."""
        pair, mechanism = self.source.pair, self.source.channel.mechanism
        votes = getattr(mechanism, "trials", 1) * pair.coordinates * ROUNDS
        chances = [float(law[-1]) if len(law) == 3 else float(law @ np.arange(len(law))) / (len(law) - 1)
                   for law in (symbol_law(mechanism, sign * pair.level)[1] for sign in (-1, 1))]  # fmt: skip
        rng = stream(1, f"benchmark {self.kind} {self.epsilon:g} {self.canaries}")
        held = rng.integers(0, 2, self.canaries).astype(bool)
        chance = np.array(chances)[held.astype(int)]
        audits = [Ranks(Trials(held, rng.binomial(votes, chance).astype(float))) for _ in range(drawn)]
        largest = audits[0].largest(target * self.star, CONFIDENCE)
        return float(np.mean([own.score > largest for own in audits]))


def case(kind: str, settings: dict[str, Any], epsilon: float, canaries: int) -> Case:
    """The mechanism that costs ε."""

    def event(own: Any) -> Event:
        return Channel.of("clip", own).event(DIMENSION, Local(), rounds=ROUNDS)

    mechanism, _ = calibrate(kind, settings, event, epsilon=epsilon, delta=DELTA)
    star = mu_of_epsilon(Account((event(mechanism),)).epsilon(DELTA).bounds.upper, DELTA)
    return Case(kind, epsilon, canaries, Messages(event(mechanism), Channel.of("clip", mechanism), "seeded", 1), star)


def rows(seeds: int, drawn: int, many: int, kinds: list[str]) -> Iterator[dict[str, str]]:
    """One row a mechanism, ε and number of canaries."""
    epsilons = (8.0, 4.0, 1.0) if many == 20_000 else (1.0,)
    asked = [(kind, own, epsilon) for kind, own in VOTES.items() for epsilon in epsilons]
    asked += [(kind, own, 8.0) for kind, own in TERNARY.items() if many == 20_000]
    for kind, settings, epsilon in [own for own in asked if own[0] in kinds]:
        yield row(case(kind, settings, epsilon, many), seeds, drawn)


def row(own: Case, seeds: int, drawn: int) -> dict[str, str]:
    """What came of it."""
    held, found = own.source.holds, [own.share(seed) for seed in range(1, seeds + 1)]
    assert held is not None  # of messages under local trust
    shares, seconds = np.array([share for share, _ in found]), [own_seconds for _, own_seconds in found]
    if own.kind in TERNARY:
        target, often = 0.9 * held / own.star, "–"
    else:
        target = TARGETS[own.epsilon, own.canaries]
        often = f"{own.met(target, drawn):.0%} of {drawn}" if drawn else "–"
    met = f"{(shares >= target).sum()} of {seeds}"
    return {
        "mechanism": own.kind, "ε": f"{own.epsilon:g}", "canaries": f"{own.canaries:,}",
        "held": f"{held / own.star:.3f}",
        "audited": f"{np.median(shares):.3f} ({shares.min():.3f} to {shares.max():.3f})" if seeds else "–",
        "target": f"{target:.3f}", "met": met, "met, drawn": often,
        "seconds": f"{np.median(seconds):.1f}" if seeds else "–",
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("--seeds", 8), ("--drawn", 200)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--canaries", type=int, default=20_000, choices=(20_000, 200_000))
    parser.add_argument("--kinds", nargs="+", default=[*VOTES, *TERNARY])
    options = parser.parse_args()
    for place, own in enumerate(rows(options.seeds, options.drawn, options.canaries, options.kinds)):
        if not place:
            print(f"| {' | '.join(own)} |\n|{'---|' * len(own)}")
        print(f"| {' | '.join(own.values())} |", flush=True)


if __name__ == "__main__":
    main()
