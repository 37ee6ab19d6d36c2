"""The inverse: the value of one free setting at which the certified ε just meets a target, never over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from math import exp, floor, inf, log, log10
from typing import Any

from fedpriv.accounting.account import Account, Cost
from fedpriv.accounting.event import Event
from fedpriv.curves.compose import FINE, QUICK
from fedpriv.errors import FedprivError, Unreachable, nearest, positive, probability
from fedpriv.mechanisms import COSTED
from fedpriv.settings import settings_of

CLOSE = 0.999  # a real setting is taken once its ε is at least this share of the target
MOST = 1 << 22  # trials or levels tried
WIDEST = 64.0  # logarithm of the largest and the smallest setting tried, in units of the input
NEAR = 1e-3  # how far a quick search for a whole number goes before the fine one
DIGITS = 7


def calibrate(
    kind: str, settings: Mapping[str, Any], event_of: Callable[[Any], Event], *, epsilon: float, delta: float,
    free: str | None = None,
) -> tuple[Any, Cost]:  # fmt: skip
    """The mechanism whose free setting meets (ε, δ) in the event that is made of it, and what it then costs.

    `free` defaults to the one setting that is needed and not given.

    >>> from fedpriv.accounting.event import by_hand
    >>> ten = lambda sign: by_hand(sign, rounds=10)
    >>> mechanism, cost = calibrate("StochasticSign", {"clip": 1}, ten, epsilon=1, delta=1e-5)
    >>> 0.99 <= cost.bounds.upper <= 1
    True
    """
    positive(epsilon=epsilon)
    probability(delta=delta)
    free = free or _missing(kind, settings)
    effect = _effect(kind, free)
    given = {name: value for name, value in settings.items() if name != free}
    _check(kind, given, free)

    @cache
    def cost_at(value: float, tolerance: float = QUICK) -> float:
        try:
            mechanism = COSTED.made(kind, given | {free: value})
        except FedprivError:  # the search may try what the mechanism refuses; what the event refuses is an error
            return inf
        return Account((event_of(mechanism),)).upper_epsilon(delta, tolerance)

    if _is_whole(kind, free):
        value: float = _whole_number(cost_at, epsilon, effect, free)
    else:
        value = _real_number(cost_at, epsilon, effect, free, _domain(free, given))
    mechanism = COSTED.made(kind, given | {free: value})
    return mechanism, Account((event_of(mechanism),)).epsilon(delta)


def _check(kind: str, given: Mapping[str, Any], free: str) -> None:
    """Refuse what no value of the free setting could mend."""
    known = [field.name for field in fields(COSTED.named(kind))]
    for name, value in given.items():
        if name not in known:
            raise FedprivError(f"{kind} has no setting {name!r}{nearest(name, known)}; settings: {', '.join(known)}")
        positive(**{name: value})
    needed = [field.name for field in fields(COSTED.named(kind)) if field.default is MISSING and field.name != free]
    missing = [name for name in needed if name not in given]
    if missing:
        raise FedprivError(f"{kind} needs {', '.join(missing)} to calibrate {free}")


def _missing(kind: str, settings: Mapping[str, Any]) -> str:
    """The one setting that is needed and not given."""
    needed = [field.name for field in fields(COSTED.named(kind)) if field.default is MISSING]
    missing = [name for name in needed if name not in settings]
    if len(missing) == 1:
        return missing[0]
    if not missing:
        raise FedprivError(f"all settings of {kind} are given: leave out the one to calibrate, of {', '.join(needed)}")
    raise FedprivError(f"{kind} needs all settings but one, and {', '.join(missing)} are missing")


def _effect(kind: str, free: str) -> int:
    """Which way the setting moves ε."""
    cls = COSTED.named(kind)
    known = [field.name for field in fields(cls)]
    if free not in known:
        raise FedprivError(f"{kind} has no setting {free!r}{nearest(free, known)}; settings: {', '.join(known)}")
    if free not in cls.effects:
        raise FedprivError(f"{free} of {kind} cannot be calibrated; these can: {', '.join(cls.effects)}")
    return int(cls.effects[free])


def _is_whole(kind: str, free: str) -> bool:
    return any(own.name == free and own.options[0].type is int for own in settings_of(COSTED.named(kind)))


def _domain(free: str, given: Mapping[str, Any]) -> tuple[float, float]:
    """The open interval in which the other settings allow the free one."""
    peak = given.get("peak") or given.get("clip") or 0.0
    above = [given[name] for name in ("spread", "scale") if name in given]
    if free == "scale":
        return float(given.get("spread", peak)), inf
    if free == "spread":
        return float(peak), float(given["scale"])
    if free == "peak":
        return 0.0, float(min([given["clip"] * (1 + 1e-15), *above]))
    if free == "clip":
        return float(given.get("peak") or 0.0), inf if given.get("peak") else float(min(above, default=inf))
    return 0.0, 36.0 if free == "epsilon" else inf


def _real_number(
    cost_at: Callable[[float], float], epsilon: float, effect: int, free: str, domain: tuple[float, float]
) -> float:
    """Bracket, then false position on ln ε against a logarithm of the setting; the safe end, shortened safely."""
    low, high = domain
    unit = low or (high if high < inf else 1.0)

    def setting(t: float) -> float:  # t from −∞ to ∞ covers the domain; a larger t means a smaller ε
        t = -effect * t
        return low + unit * exp(t) if high == inf else low + (high - low) / (1 + exp(-t))

    def excess(t: float) -> float:
        return log(max(cost_at(setting(t)), 1e-300) / epsilon)

    safe, unsafe = 0.0, 0.0
    step = 1.0
    while excess(safe) > 0:
        unsafe, safe, step = safe, safe + step, 2 * step
        if safe > WIDEST:
            _refuse(epsilon * exp(excess(unsafe)), epsilon, f"{free} towards {setting(unsafe):.6g}")
    while safe == unsafe or excess(unsafe) <= 0:
        safe, unsafe, step = unsafe if safe != unsafe else safe, unsafe - step, 2 * step
        if unsafe < -WIDEST:
            return setting(safe)
    safe = _false_position(excess, safe, unsafe)
    return _shortened(setting(safe), effect, domain)


def _false_position(excess: Callable[[float], float], safe: float, unsafe: float) -> float:
    """The safe end once its ε is close to the target (Illinois rule; halving where a value is infinite)."""
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


def _shortened(value: float, effect: int, domain: tuple[float, float]) -> float:
    """The value with few digits, rounded to the side where ε is smaller."""
    scale = 10.0 ** (DIGITS - 1 - floor(log10(value)))
    short = (floor(value * scale) if effect > 0 else -floor(-value * scale)) / scale
    return short if domain[0] < short < domain[1] else value


def _whole_number(cost_at: Callable[[int, float], float], epsilon: float, effect: int, free: str) -> int:
    """The last whole number that meets the target, going from the side where ε is small."""
    safe, unsafe = _doubled(cost_at, epsilon, effect, free)
    safe, unsafe = _narrowed(cost_at, QUICK, epsilon, safe, unsafe, NEAR)
    reach = max(1, int(NEAR * safe))
    while cost_at(safe, FINE) > epsilon:  # quick and fine bounds may disagree about neighbours
        safe, unsafe, reach = max(safe - effect * reach, 1), safe, 2 * reach
    while unsafe and cost_at(unsafe, FINE) <= epsilon:
        safe, unsafe, reach = unsafe, max(unsafe + effect * reach, 0), 2 * reach
    return _narrowed(cost_at, FINE, epsilon, safe, unsafe, 0.0)[0]


def _doubled(cost_at: Callable[[int, float], float], epsilon: float, effect: int, free: str) -> tuple[int, int]:
    """A number that meets the target and one that does not, in steps of two or more: ε goes at least as √n."""
    here, before, cost = 1, 0, cost_at(1, QUICK)
    if effect > 0 and cost > epsilon:
        _refuse(cost, epsilon, f"{free} = 1")
    while (cost <= epsilon) == (effect > 0):
        leap = epsilon / cost if effect > 0 else (cost / epsilon) ** 2 * 1.01
        before, here = here, here * min(max(int(leap), 2), 64) if 0 < cost < inf else 2 * here
        if here > MOST:
            if effect > 0:
                return before, here
            _refuse(cost, epsilon, f"{free} up to {before}")
        cost = cost_at(here, QUICK)
    return (before, here) if effect > 0 else (here, before)


def _narrowed(
    cost_at: Callable[[int, float], float], tolerance: float, epsilon: float, safe: int, unsafe: int, near: float
) -> tuple[int, int]:
    """The bracket made as narrow as neighbours, or as `near` relative to them: ln ε is nearly straight in ln n."""
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


def _refuse(best: float, epsilon: float, what: str) -> None:
    reached = "no finite ε" if best == inf else f"ε = {best:.6g}"
    raise Unreachable(f"ε = {epsilon:g} is out of reach: the best that {what} gives is {reached}")
