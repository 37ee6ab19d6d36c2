"""The script that a node and its neighbour are asked alike: rounds, the same again, and what no honest server asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fedpriv._base.arrays import Rows
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from simulations.audit._node_asks import Ask, honest
from simulations.audit._node_home import Home
from simulations.audit._node_trials import Asked


def tried(home: Home, asked: Asked, weights: Rows) -> Iterator[Ask]:
    """Questions a curious server might add after all rounds: the same again, other models, rounds that cannot be."""
    first, after = asked.ask(1, weights, asked.first), asked.rounds + 1
    moved = weights.copy()
    moved[:1] += np.float32(1)
    yield replace(first, about="round 1 again")
    yield replace(first, about="round 1 again, by another run", run="second")
    yield replace(first, about="round 1 with another model", weights=moved)
    yield replace(first, about="a model of nan", round=after, weights=np.full_like(weights, np.nan))
    yield replace(first, about="a model at which gradients overflow", round=after, weights=weights + np.float32(1e30))
    yield replace(first, about="a model one coordinate shorter", round=after + 1, weights=weights[:-1])
    yield replace(first, about="a round that cannot be", round=2**40)
    everybody = replace(asked, clients=honest(home, asked.study))
    yield _of(everybody, after + 2, weights, "all its clients")
    beyond = replace(asked, clients=np.array([asked.study.clients.count], np.int64))
    yield _of(beyond, after + 3, weights, "a client that is not its own")


def other_studies(home: Home, asked: Asked, weights: Rows) -> Iterator[Ask]:
    """Questions in which a server alters the study: other clients, seed, batches, steps, or hardly any noise."""
    study, own = asked.study, asked.study.privacy
    otherwise = {
        "another number of clients": f"clients.count={2 * study.clients.count + 1}",
        "more records of each client than there are": "clients.records=1000000",
        "another seed": f"run.seed={study.run.seed + 1}",
        "more steps": f"training.local_steps={study.training.local_steps + 1}",
        "batches of one record": "training.batch=1",
    }
    if own.private_sum is not None:
        otherwise["hardly any noise"] = "privacy.release.noise=1e-9"
    else:
        peak = float(getattr(own.drawn_by, "peak", own.drawn_by.clip))
        otherwise["hardly any noise"] = f"privacy.mechanism.scale={peak * 1.000001!r}"
        otherwise["hardly any noise at all"] = "privacy.mechanism.noise=1e-9"
    for words, override in otherwise.items():
        try:
            other = study_file.parsed_study(asked.text, overrides=[override])
        except FedprivError:
            continue  # no study
        clients = honest(home, other)
        if clients.size:
            yield _of(Asked(other, 1, clients), 1, weights, words)


def _of(asked: Asked, round: int, weights: Rows, about: str) -> Ask:
    """One question of the script a node is tried with: a round of `asked` with its first settings, called `about`."""
    return replace(asked.ask(round, weights, asked.first), about=about)
