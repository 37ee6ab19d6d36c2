"""`fedpriv estimate --mechanism`: the mean of vectors, one a client, each sent once through a channel."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from math import hypot, inf
from pathlib import Path
from typing import Any

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv._base.own_modules import look_for_modules
from fedpriv._base.spelling import rounded_down, rounded_up, short_number
from fedpriv.accounting.account import Account
from fedpriv.accounting.calibration import calibrate
from fedpriv.aggregation import RULES, Mean, rule_of, with_assumed_attackers
from fedpriv.channel import Channel, How
from fedpriv.errors import FedprivError, natural, probability, whole
from fedpriv.estimation.one_shot import OneShot
from fedpriv.estimation.rotation import Rotation
from fedpriv.mechanisms import MECHANISMS, settings_of
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.randomness.streams import stream
from fedpriv.settings import settings_from
from fedpriv.trust import sums_only
from fedpriv.wire import masked_bits, packed_bits
from simulations.cli._command import Option, option
from simulations.cli._estimate_data import records_of
from simulations.cli._estimate_out import target_of, written_to
from simulations.cli._estimate_table import CRYPTOGRAPHIC, REPLAYABLE, SHOWN
from simulations.cli._words import as_real, as_whole, settings_words, show_found
from simulations.report.run.facts import aligned_table

WHO = "one client, all of whose data are replaced; for whoever sees {seen} and all that follows from it"
SEEN = {"local": "its message", "secure-aggregation": "sums of messages alone"}
PRIVATE = "worked out from the records themselves, without noise: for their holder alone"
ALONE = (
    "clients",
    "byzantine",
    "trust",
    "norm",
    "rule",
    "rotate",
    "peaks",
)  # options of --mechanism, and of nothing else


def as_reals(text: str) -> list[float]:
    """Numbers between commas."""
    return [as_real(word) for word in text.split(",")]


OPTIONS: tuple[Option, ...] = (
    option("--mechanism", "KIND", "each row is a client's vector, sent once through this mechanism (fedpriv list)"),
    option("--clients", "N", "the first N rows are the clients' (default all)", type=as_whole),
    option("--byzantine", "K", "so many of them, drawn by lot, send their vector turned round", type=as_whole),
    option("--trust", "local|secure-aggregation", "whether the server sees each message or sums (default local)"),
    option("--norm", "clip|normalise|coordinates", "how vectors are bounded before (default clip)"),
    option("--rule", ("KIND", "name=value"), "what the server makes of messages (default Mean)", nargs="+"),
    option("--rotate", "SEED", "rotate before, by a public seed (default 1)", nargs="?", const=1, type=as_whole),
    option(
        "--peaks", "R,R,…", "no mean, but bias and error at each peak, rotated and not: without privacy, for oneself",
        type=as_reals,
    ),
)  # fmt: skip


def run_federated(options: argparse.Namespace) -> int:
    """One shot of all clients, or the table of peaks; everything that can be refused is refused before."""
    if options.delta is None:
        raise FedprivError("--mechanism needs --delta, at which its ε is certified")
    probability(delta=options.delta)
    target = target_of(options.out, options.data)
    if options.seed is not None:
        natural(seed=options.seed)
    if options.peaks is not None and (target is not None or options.seed is not None):
        raise FedprivError("--peaks draws nothing and gives no mean: leave --out and --seed out")
    look_for_modules(Path.cwd())  # for module:Class
    MECHANISMS.named(options.mechanism)
    data, names = _clients_of(options)
    if options.peaks is not None:
        found = [_at_peak(options, data, peak) for peak in options.peaks]
        show_found({"peaks": found, "private": False, "note": PRIVATE}, _peaks_table(found), options.json)
        return 0
    shot = shot_of(options, data.shape[1], len(data))
    cost = Account((shot.event,)).epsilon(options.delta)
    rng = cryptographic_generator() if options.seed is None else stream(options.seed, "estimate")
    begun = time.perf_counter()
    mean = shot.estimate(data, rng)
    seconds = time.perf_counter() - begun
    written = target is not None and written_to(target, mean, names)
    result = _report(shot, options) | {
        "mean": mean.tolist(), "columns": names, "epsilon": cost.bounds._asdict(), "delta": options.delta,
        "proof": {"upper": cost.upper_proof, "lower": cost.lower_proof}, "data": options.data,
        "out": options.out if written else None, "seconds": seconds,
    }  # fmt: skip
    show_found(result, _table(result), options.json)
    return 0 if written == (target is not None) else 1


def refuse_strangers(options: argparse.Namespace) -> None:
    """What only --mechanism takes, and what only methods take."""
    if options.mechanism is None:
        if strange := [name for name in ALONE if getattr(options, name) is not None]:
            raise FedprivError(f"--{strange[0]} is of --mechanism: without it the records are one holder's")
        return
    if strange := [name for name in ("method", "corruption", "bound") if getattr(options, name) is not None]:
        raise FedprivError(f"--{strange[0]} is of a curator's methods: leave it out, or --mechanism")
    if options.heavy_tailed:
        raise FedprivError("--heavy-tailed is of --method prime: leave it out, or --mechanism")


def shot_of(options: argparse.Namespace, dimension: int, clients: int, **changed: Any) -> OneShot:
    """What the options describe; a setting that is left out is calibrated to --epsilon."""
    rotate = changed.pop("rotate", options.rotate)
    settings = settings_from(options.settings) | changed
    byzantine, (kind, *words) = options.byzantine or 0, options.rule or ["Mean"]
    how: How = options.norm or "clip"
    rule = rule_of(kind, with_assumed_attackers(kind, settings_from(words), byzantine, RULES))
    rotation = None if rotate is None else Rotation(dimension=dimension, seed=rotate)

    def made(mechanism: Any) -> OneShot:
        """The estimate that `fedpriv estimate --mechanism` makes with this mechanism, as its options say."""
        return OneShot(
            channel=Channel.of(how, mechanism), clients=clients, dimension=dimension, trust=options.trust or "local",
            rule=rule, byzantine=byzantine, rotation=rotation,
        )  # fmt: skip

    if options.epsilon is None:
        return made(MECHANISMS.made(options.mechanism, settings))
    found, _ = calibrate(
        options.mechanism, settings, lambda own: made(own).event, epsilon=options.epsilon, delta=options.delta
    )
    return made(found)


def _clients_of(options: argparse.Namespace) -> tuple[Vector, list[str] | None]:
    """A row a client; --clients says how many of them."""
    data, names = records_of(options.data)
    if options.clients is not None:
        whole(clients=options.clients)
        if options.clients > len(data):
            raise FedprivError(f"--clients {options.clients}: {options.data} has {len(data)} rows, one a client")
        data = data[: options.clients]
    if not options.quiet:
        print(f"{len(data):,} clients, a vector of {data.shape[1]:,} each", file=sys.stderr, flush=True)
    return data, names


def _at_peak(options: argparse.Namespace, data: Vector, peak: float) -> dict[str, Any]:
    """Bias of the bounded vectors' mean, and with the noise's standard error the error to be expected, both ways."""
    finite = data[np.isfinite(data).all(axis=1)]
    if not len(finite):
        raise FedprivError(f"{options.data}: no row is finite")
    found: dict[str, Any] = {"peak": peak}
    for name, rotate in (("plain", None), ("rotated", options.rotate or 1)):
        shot = shot_of(options, data.shape[1], len(data), peak=peak, rotate=rotate)
        bias = float(np.linalg.norm((shot.bounded(finite) - finite).mean(axis=0)))
        noise = inf if shot.errors is None else shot.errors.vector
        found[name] = {
            "epsilon": Account((shot.event,)).epsilon(options.delta).bounds._asdict(), "bias": bias, "noise": noise,
            "error": hypot(bias, noise), "settings": settings_of(shot.channel.mechanism),
        }  # fmt: skip
    return found


def _report(shot: OneShot, options: argparse.Namespace) -> dict[str, Any]:
    """What was sent by whom, as plain data: all of it known without the records."""
    own = shot.channel.mechanism
    turned = None if shot.rotation is None else {"seed": shot.rotation.seed, "coordinates": shot.rotation.width}
    return {
        "mechanism": type(own).__name__, "settings": settings_of(own), "norm": options.norm or "clip",
        "trust": shot.trust, "unit": "client", "adjacency": "replace", "clients": shot.clients,
        "byzantine": shot.byzantine, "dimension": shot.dimension, "rotation": turned, "rule": str(shot.rule),
        "bits": masked_bits(own, shot.clients) if sums_only(shot.trust) else
        packed_bits(own, shot.width, boxed=options.norm == "coordinates")[0],
        "stated": isinstance(shot.rule, Mean),  # whether error and reach are known of this rule
        "standard_error": shot.errors._asdict() if shot.errors is not None and isinstance(shot.rule, Mean) else None,
        "attackers_reach": shot.reach if isinstance(shot.rule, Mean) else None, "seed": options.seed,
        "generator": CRYPTOGRAPHIC if options.seed is None else f"seed {options.seed}",
    }  # fmt: skip


def _table(result: Mapping[str, Any]) -> str:
    """For people: who sent what, the mean, the guarantee, what error to expect."""
    cost, mean, turned = result["epsilon"], result["mean"], result["rotation"]
    attackers = f", {result['byzantine']} of them Byzantine (blind)" * bool(result["byzantine"])
    many = f"  … ({len(mean):,} in all; --out or --json gives them)" * (len(mean) > SHOWN)
    rotated = "" if turned is None else f", rotated to {turned['coordinates']:,} coordinates by seed {turned['seed']}"
    bracket = f"ε at most {rounded_up(cost['upper'])}, at least {rounded_down(cost['lower'])}"
    rows = [
        ("clients", f"{result['clients']:,}, a vector of {result['dimension']:,} each{attackers}"),
        ("mechanism", f"{result['mechanism']} {settings_words(result['settings'])}"),
        ("sent", f"{result['bits']:.4g} bits a coordinate, {result['trust']} trust{rotated}; {result['rule']}"),
        ("mean", f"{'  '.join(f'{value:.6g}' for value in mean[:SHOWN])}{many}"),
        *([("", f"in {result['out']}")] if result["out"] is not None else []),
        ("privacy", f"{bracket}, at δ = {short_number(result['delta'])}"),
        ("", WHO.format(seen=SEEN[result["trust"]])),
        *_error_rows(result),
        ("generator", result["generator"]),
        *([("", REPLAYABLE)] if result["seed"] is not None else []),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _error_rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is known beforehand of the noise, and of what attackers can do."""
    errors, words = result["standard_error"], "not known beforehand: no formula for this mechanism's variance"
    if errors is not None:
        own = f"{errors['coordinate']:.4g} of a coordinate, {errors['vector']:.4g} of the vector (ℓ2)"
        words = f"of the noise in Mean(): at most {own}, known beforehand"
    if not result["stated"]:
        return [("std. error", f"known beforehand of a Mean, as is what attackers can do; not of {result['rule']}")]
    rows = [("std. error", words)]
    if result["byzantine"]:
        rows.append(("attackers", f"move Mean() by at most {result['attackers_reach']:.4g} (ℓ2)"))
    return rows


def _peaks_table(found: list[dict[str, Any]]) -> str:
    """A line a peak; ε is rounded up."""
    head = ["peak", "ε", "bias", "error", "rotated: ε", "bias", "error"]
    rows = [
        [f"{own['peak']:g}"] + [
            text for each in (own["plain"], own["rotated"])
            for text in (rounded_up(each["epsilon"]["upper"]), f"{each['bias']:.4g}", f"{each['error']:.4g}")
        ]
        for own in found
    ]  # fmt: skip
    return f"{aligned_table(head, rows)}\nℓ2; error: of bias and noise together. {PRIVATE[0].upper()}{PRIVATE[1:]}."
