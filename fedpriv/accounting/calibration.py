"""The inverse: the value of one free setting at which the certified ε just meets a target, never over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from math import exp, floor, inf, log, log10
from typing import Any, NoReturn

from fedpriv.accounting.account import Account, Cost
from fedpriv.accounting.event import Event
from fedpriv.curves.compose import FINE, QUICK
from fedpriv.errors import FedprivError, Unreachable, nearest_hint, positive, probability
from fedpriv.mechanisms import COSTED
from fedpriv.settings import settings_of

CLOSE = 0.999  # a real setting is taken once its ε is at least this share of the target
MOST = 1 << 22  # the largest whole number tried, of trials or levels
WIDEST = 64.0  # logarithm of the largest and the smallest setting tried, in units of the input
NEAR = 1e-3  # how far a quick search for a whole number goes before the fine one
DIGITS = 7  # that a calibrated real setting is written with
LARGEST_EPSILON = 36.0  # past which a vote is no longer random


def calibrate(
    kind: str,  # the mechanism's class name
    settings: Mapping[str, Any],  # the others; one for the free setting is not looked at
    event_of: Callable[[Any], Event],  # what is costed of a mechanism
    *,
    epsilon: float,
    delta: float,
    free: str | None = None,  # the setting that is sought; the one that is needed and not given, unless said
    beside: tuple[Event, ...] = (),  # what else the same ε has to pay for
) -> tuple[Any, Cost]:
    """The mechanism whose free setting, such as its noise, just meets (ε, δ) in an event made of it; and what it costs.

    >>> from fedpriv.accounting.event import by_hand
    >>> ten = lambda sign: by_hand(sign, rounds=10)
    >>> mechanism, cost = calibrate("StochasticSign", {"clip": 1}, ten, epsilon=1, delta=1e-5)
    >>> 0.99 <= cost.bounds.upper <= 1
    True
    """
    positive(epsilon=epsilon)
    probability(delta=delta)
    cls = COSTED.named(kind)
    free = _free_setting(kind, settings, free)
    effect = int(cls.effects[free])  # which way the setting moves ε
    given = {name: value for name, value in settings.items() if name != free}

    @cache
    def cost_at(value: float, tolerance: float = QUICK) -> float:
        """The certified ε at δ of the mechanism with its free setting at `value`; ∞ where it refuses that."""
        try:
            mechanism = COSTED.made(kind, given | {free: value})
        except FedprivError:  # the search may try what the mechanism refuses; what the event refuses is an error
            return inf
        return Account((event_of(mechanism), *beside)).upper_epsilon(delta, tolerance)

    if any(own.name == free and own.options[0].type is int for own in settings_of(cls)):
        value: float = _whole_number(cost_at, epsilon, effect, free)
    else:
        value = _real_number(cost_at, epsilon, effect, free, _domain(free, given))
    mechanism = COSTED.made(kind, given | {free: value})
    account = Account((event_of(mechanism), *beside))
    cost = account.epsilon(delta)  # of a very small ε a fine lattice may be further off than the quick one that chose
    return mechanism, cost if cost.bounds.upper <= epsilon else account.epsilon(delta, QUICK)


def _free_setting(kind: str, settings: Mapping[str, Any], free: str | None) -> str:
    """The name of the setting to calibrate, the one left out unless said; refused where no value of it could help."""
    known = [field.name for field in fields(COSTED.named(kind))]
    needed = [field.name for field in fields(COSTED.named(kind)) if field.default is MISSING]
    if not COSTED.named(kind).effects:
        raise FedprivError(
            f"{kind} has no setting to calibrate: what it draws is given as it is; fedpriv account costs it"
        )
    if not free:
        missing = [name for name in needed if name not in settings]
        if not missing:
            can = COSTED.named(kind).effects
            told = f"leave out the one to calibrate, of {', '.join(name for name in needed if name in can)}"
            if others := [name for name in can if name not in needed]:
                told += f", or say which is free, as --free does, of {', '.join(others)}"
            raise FedprivError(f"all settings of {kind} are given: {told}")
        if len(missing) > 1:
            raise FedprivError(f"{kind} needs all settings but one, and {', '.join(missing)} are missing")
        free = missing[0]
    effects, others = COSTED.named(kind).effects, [name for name in settings if name != free]
    words = [own.name for own in settings_of(COSTED.named(kind)) if own.options[0].type not in (int, float)]
    for name in (free, *others):
        if name not in known:
            raise FedprivError(
                f"{kind} has no setting {name!r}{nearest_hint(name, known)}; settings: {', '.join(known)}"
            )
        if name == free and name not in effects:
            raise FedprivError(f"{free} of {kind} cannot be calibrated; these can: {', '.join(effects)}")
        if name != free and name not in words:
            positive(**{name: settings[name]})
    if missing := [name for name in needed if name not in (free, *others)]:
        raise FedprivError(f"{kind} needs {', '.join(missing)} to calibrate {free}")
    return free


def _domain(free: str, given: Mapping[str, Any]) -> tuple[float, float]:
    """The open interval that a mechanism's other settings leave to the one to be calibrated."""
    peak = given.get("peak") or given.get("clip") or 0.0
    above = [given[name] for name in ("spread", "scale") if name in given]
    if free == "scale":
        return float(given.get("spread", peak)), inf
    if free in ("low", "high"):
        return (0.0, float(given["high"])) if free == "low" else (float(given["low"]), 1.0)
    if free == "spread":
        return float(peak), float(given["scale"])
    if free == "peak":
        return 0.0, float(min([given["clip"] * (1 + 1e-15), *above]))
    if free == "clip":
        return float(given.get("peak") or 0.0), inf if given.get("peak") else float(min(above, default=inf))
    return 0.0, LARGEST_EPSILON if free == "epsilon" else inf


def _real_number(
    cost_at: Callable[[float], float], epsilon: float, effect: int, free: str, domain: tuple[float, float]
) -> float:
    """The real setting at which ε meets its target, rounded to the side of less ε; `domain` bounds the search.

    Bracket, then false position on ln ε against a logarithm of the setting.
    """
    low, high = domain
    unit = low or (high if high < inf else 1.0)

    def setting(t: float) -> float:  # t from −∞ to ∞ covers the domain; a larger t means a smaller ε
        """The setting at a place t of the search, from −∞ to ∞: a larger t means a smaller ε."""
        t = -effect * t
        return low + unit * exp(t) if high == inf else low + (high - low) / (1 + exp(-t))

    def excess(t: float) -> float:
        """ln(ε/target) at a place t of the search: at most 0 where the target is met."""
        return log(max(cost_at(setting(t)), 1e-300) / epsilon)

    safe, unsafe, nearest = 0.0, 0.0, 0.0
    step = 1.0
    while excess(safe) > 0:
        unsafe, safe, step = safe, safe + step, 2 * step
        nearest = min(nearest, unsafe, key=excess)  # very large noise is rounded, so that ε may grow again
        if safe > WIDEST:
            _refuse(epsilon * exp(excess(nearest)), epsilon, f"{free} towards {setting(nearest):.6g}")
    while safe == unsafe or excess(unsafe) <= 0:
        safe, unsafe, step = unsafe if safe != unsafe else safe, unsafe - step, 2 * step
        if unsafe < -WIDEST:
            return setting(safe)
    value = setting(_false_position(excess, safe, unsafe))
    scale = 10.0 ** (DIGITS - 1 - floor(log10(value)))  # few digits, rounded to the side where ε is smaller
    short = (floor(value * scale) if effect > 0 else -floor(-value * scale)) / scale
    return short if low < short < high and cost_at(short) <= epsilon else value


def _false_position(excess: Callable[[float], float], safe: float, unsafe: float) -> float:
    """Between a place that meets the target ε and one that does not, one that meets it closely.

    The Illinois rule; halving where a value is infinite.
    """
    under, over = excess(safe), excess(unsafe)
    for _ in range(100):
        if under >= log(CLOSE):
            break
        usable = over < 50 and under > -50
        aim = log((1 + CLOSE) / 2)
        share = (aim - under) / (over - under) if usable else 0.5
        middle = safe + (unsafe - safe) * min(max(share, 0.02), 0.98)
        value = excess(middle)
        if value <= 0:
            safe, under, over = middle, value, aim + (over - aim) / 2 if usable else over
        else:
            unsafe, over, under_ = middle, value, aim + (under - aim) / 2
            under = min(under_, log(CLOSE) - 1e-9) if usable else under
    return safe


def _whole_number(cost_at: Callable[[int, float], float], epsilon: float, effect: int, free: str) -> int:
    """The whole setting, such as votes a coordinate, at which ε just meets its target: the last one before it fails.

    One that meets it and one that does not are found in steps of two or more, for ε goes at least as √n.
    """
    here, before, cost = 1, 0, cost_at(1, QUICK)
    if effect > 0 and cost > epsilon:
        _refuse(cost, epsilon, f"{free} = 1")
    while (cost <= epsilon) == (effect > 0):
        leap = epsilon / cost if effect > 0 else (cost / epsilon) ** 2 * 1.01
        before, here = here, here * min(max(int(leap), 2), 64) if 0 < cost < inf else 2 * here
        if here > MOST:
            if effect < 0:
                _refuse(cost, epsilon, f"{free} up to {before}")
            break
        cost = cost_at(here, QUICK)
    safe, unsafe = (before, here) if effect > 0 else (here, before)
    safe, unsafe = _narrowed(cost_at, QUICK, epsilon, safe, unsafe, NEAR)
    reach = max(1, int(NEAR * safe))
    while cost_at(safe, FINE) > epsilon:  # quick and fine bounds may disagree about neighbours
        safe, unsafe, reach = max(safe - effect * reach, 1), safe, 2 * reach
    while unsafe and cost_at(unsafe, FINE) <= epsilon:
        safe, unsafe, reach = unsafe, max(unsafe + effect * reach, 0), 2 * reach
    return _narrowed(cost_at, FINE, epsilon, safe, unsafe, 0.0)[0]


def _narrowed(
    cost_at: Callable[[int, float], float], tolerance: float, epsilon: float, safe: int, unsafe: int, near: float
) -> tuple[int, int]:
    """A bracket (meets the target ε, does not) of whole settings, narrowed to neighbours, or to `near` of their size.

    ln ε is nearly straight in ln n.
    """
    turn = 0
    while abs(safe - unsafe) > max(1, near * safe):
        under, over = (cost_at(n, tolerance) if n else inf for n in (safe, unsafe))
        straight = turn % 3 < 2 and 0 < under < over < inf
        share = log(epsilon / under) / log(over / under) if straight else 0.5
        aim = safe * (unsafe / safe) ** share if straight else (safe + unsafe) / 2
        low, high = sorted((safe, unsafe))
        past = max(1, int(near * safe / 2))  # a step past the aim, to the far end, closes the bracket from both sides
        middle = min(max(round(aim) + (past if high - aim > aim - low else -past), low + 1), high - 1)
        safe, unsafe = (middle, unsafe) if cost_at(middle, tolerance) <= epsilon else (safe, middle)
        turn += 1
    return safe, unsafe


def _refuse(best: float, epsilon: float, what: str) -> NoReturn:
    """Raise that no value of the setting reaches the target ε, naming the best ε that `what` gives."""
    reached = "no finite ε" if best == inf else f"ε = {best:.6g}"
    raise Unreachable(f"ε = {epsilon:g} is out of reach: the best that {what} gives is {reached}", best)
