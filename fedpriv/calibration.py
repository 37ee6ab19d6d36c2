"""The inverse: the value of one free setting at which the certified ε just meets a target, never over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from math import exp, floor, inf, log, log10
from typing import Any

from fedpriv.accounting import Account, Cost, Release
from fedpriv.errors import FedprivError, Unreachable, nearest, positive, probability
from fedpriv.mechanisms import Mechanism, kind_of, make
from fedpriv.privacy_loss import FINE, QUICK

CLOSE = 0.999  # a real setting is taken once its ε is at least this share of the target
MOST = 1 << 22  # trials or levels tried
WIDEST = 64.0  # logarithm of the largest and the smallest setting tried, in units of the input
DIGITS = 7


def calibrate(
    kind: str, settings: Mapping[str, Any], *, epsilon: float, delta: float, free: str | None = None, **release: Any
) -> tuple[Mechanism, Cost]:
    """The mechanism whose free setting meets (ε, δ) over the release described, and what it then costs.

    `free` defaults to the one setting that is needed and not given.

    >>> mechanism, cost = calibrate("StochasticSign", {"clip": 1}, epsilon=1, delta=1e-5, rounds=10)
    >>> 0.99 <= cost.bounds.upper <= 1
    True
    """
    positive(epsilon=epsilon)
    probability(delta=delta)
    free = free or _missing(kind, settings)
    effect = _effect(kind, free)
    given = {name: value for name, value in settings.items() if name != free}

    @cache
    def cost_at(value: float) -> float:
        account = Account((Release(mechanism=make(kind, given | {free: value}), **release),))
        return account.upper_epsilon(delta, FINE if whole else QUICK)  # neighbouring whole numbers must be told apart

    whole = _is_whole(kind, free)
    if whole:
        value: float = _whole_number(cost_at, epsilon, effect, free)
    else:
        value = _real_number(cost_at, epsilon, effect, free, _domain(free, given))
    mechanism = make(kind, given | {free: value})
    return mechanism, Account((Release(mechanism=mechanism, **release),)).epsilon(delta)


def _missing(kind: str, settings: Mapping[str, Any]) -> str:
    """The one setting that is needed and not given."""
    needed = [field.name for field in fields(kind_of(kind)) if field.default is MISSING]
    missing = [name for name in needed if name not in settings]
    if len(missing) == 1:
        return missing[0]
    if not missing:
        raise FedprivError(f"all settings of {kind} are given: leave out the one to calibrate, of {', '.join(needed)}")
    raise FedprivError(f"{kind} needs all settings but one, and {', '.join(missing)} are missing")


def _effect(kind: str, free: str) -> int:
    """Which way the setting moves ε."""
    cls = kind_of(kind)
    known = [field.name for field in fields(cls)]
    if free not in known:
        raise FedprivError(f"{kind} has no setting {free!r}{nearest(free, known)}; settings: {', '.join(known)}")
    if free not in cls.effects:
        raise FedprivError(f"{free} of {kind} cannot be calibrated; these can: {', '.join(cls.effects)}")
    return int(cls.effects[free])


def _is_whole(kind: str, free: str) -> bool:
    return any(field.name == free and field.type in (int, "int") for field in fields(kind_of(kind)))


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
        try:
            return log(max(cost_at(setting(t)), 1e-300) / epsilon)
        except FedprivError:
            return inf

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


def _whole_number(cost_at: Callable[[int], float], epsilon: float, effect: int, free: str) -> int:
    """The last whole number that meets the target, going from the side where ε is small."""
    safe, unsafe = (1, 2) if effect > 0 else (1, 0)
    if effect > 0:
        if cost_at(1) > epsilon:
            _refuse(cost_at(1), epsilon, f"{free} = 1")
        while unsafe <= MOST and cost_at(unsafe) <= epsilon:
            safe, unsafe = unsafe, 2 * unsafe
    else:
        while cost_at(safe) > epsilon:
            unsafe, safe = safe, 2 * safe
            if safe > MOST:
                _refuse(cost_at(unsafe), epsilon, f"{free} up to {unsafe}")
    turn = 0
    while abs(safe - unsafe) > 1:
        middle = _between(safe, unsafe, cost_at, epsilon) if turn % 3 < 2 else (safe + unsafe) // 2
        safe, unsafe = (middle, unsafe) if cost_at(middle) <= epsilon else (safe, middle)
        turn += 1
    return safe


def _between(safe: int, unsafe: int, cost_at: Callable[[int], float], epsilon: float) -> int:
    """Where ln ε, a straight line in ln n, would meet the target; a step past it, so that the bracket closes."""
    under, over = (cost_at(n) if n else inf for n in (safe, unsafe))
    share = log(epsilon / under) / log(over / under) if 0 < under < over < inf else 0.5
    aim = safe * (unsafe / safe) ** share if unsafe else 0.0
    low, high = sorted((safe, unsafe))
    return min(max(round(aim) + (1 if unsafe > safe else -1), low + 1), high - 1)


def _refuse(best: float, epsilon: float, what: str) -> None:
    reached = "no finite ε" if best == inf else f"ε = {best:.6g}"
    raise Unreachable(f"ε = {epsilon:g} is out of reach: the best that {what} gives is {reached}")
