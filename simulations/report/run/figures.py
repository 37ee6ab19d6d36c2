"""Figures of what was learnt and what it cost: accuracy, ε, the tradeoff curve."""

from __future__ import annotations

from math import isfinite, nan

import numpy as np
from matplotlib.ticker import MaxNLocator

from fedpriv._base.spelling import rounded_down, rounded_up, short_number
from fedpriv.curves.compose import ROUGH
from fedpriv.curves.tradeoff import Tradeoff
from server.progress.accuracy_words import answers_words, labels_rows
from server.progress.words import ASYMPTOTIC
from simulations.figures.curves import gaussian_beside
from simulations.figures.style import (
    BLUE,
    GREEN,
    MUTED,
    RED,
    Drawn,
    Picture,
    draw_curve,
    in_points,
    label_ends,
    new_figure,
    over_rounds,
    styled_picture,
)
from simulations.report.run._traffic import bytes_sent, participation, seconds
from simulations.report.run._votes_drawn import votes_figure
from simulations.report.run.facts import whose_words
from simulations.report.run.runs import Run

BEFOREHAND = ", if a run were stopped there as decided beforehand"


def run_pictures(run: Run) -> list[Picture]:
    """All pictures of a run's report that its records have something for, in the page's order."""
    made = [
        styled_picture("accuracy", "Accuracy and loss", lambda: accuracy_figure(run)),
        styled_picture("answers", "Accuracy by clients' answers", lambda: answers_figure(run)),
        styled_picture("labels", "Labels by clients' word", lambda: labels_figure(run)),
        styled_picture("epsilon", "Privacy spent", lambda: epsilon_figure(run)),
        styled_picture("adapted", "What adapts", lambda: adapted_figure(run)),
        styled_picture("tradeoff", "What an attacker can do with it", lambda: tradeoff_figure(run)),
        styled_picture("votes", "Votes that came out wrong", lambda: votes_figure(run)),
        styled_picture("beta", "Attackers over rounds", lambda: beta_figure(run)),
        styled_picture("bytes", "Bytes a client sends each round", lambda: bytes_sent(run)),
        styled_picture("participation", "Who answered", lambda: participation(run)),
        styled_picture("seconds", "Where the time went", lambda: seconds(run)),
    ]
    return [each for each in made if each is not None]


def evaluated_rounds(run: Run, name: str) -> tuple[list[int], list[float]]:
    """The rounds of a run in which accuracy, R² or loss was measured, and its values; nan if one ran away."""
    lines = [line for line in run.rounds if line.get(name) is not None]
    return [line["round"] for line in lines], [line[name] if isfinite(line[name]) else nan for line in lines]


def accuracy_figure(run: Run) -> Drawn | None:
    """The report's figure of accuracy, or R², over rounds, a backdoor's success and loss below; None without any."""
    kept = {name: evaluated_rounds(run, name) for name in ("accuracy", "r2", "backdoor", "loss")}
    kept = {name: series for name, series in kept.items() if np.isfinite(series[1]).any()}
    if not kept:
        return None
    figure, axes = new_figure(1.6 + 1.1 * len(kept), [1.6, 1, 1][: len(kept)])
    for place, (name, (x, y)) in zip(axes, kept.items(), strict=True):
        colour = BLUE if name in ("accuracy", "r2") else RED
        draw_curve(place, x, y, colour)
        place.set_title({"r2": "R²", "backdoor": "backdoor: its trigger taken for its target"}.get(name, name))
        over_rounds(place, x)
        low, high = np.nanmin(y), np.nanmax(y)
        if high - low < 0.05:  # a line that hardly moves looks so
            place.set_ylim(low - 0.05, high + 0.05)
        place.label_outer()
        place.yaxis.set_major_locator(MaxNLocator(5))
        ends = [(x[-1], y[-1], f"{y[-1]:.3f}", colour)] if isfinite(y[-1]) else []
        label_ends(place, ends)
    examples = run.header["test_examples"]
    last = run.last("accuracy")
    error = f"{100 * (last * (1 - last) / examples) ** 0.5:.1f}" if last is not None and examples else "?"
    words = [f"{name} {y[0]:.3f} in round {x[0]}, {y[-1]:.3f} in round {x[-1]}" for name, (x, y) in kept.items()]
    note = f"On {examples:,} examples held out"
    note += "." if "r2" in kept else f"; one standard error is {error} percentage points."
    return figure, "Over rounds: " + "; ".join(words) + ".", note if examples else ""


def answers_figure(run: Run) -> Drawn | None:
    """The report's figure of the accuracy that clients' answers came to, over rounds, with its interval; or None."""
    lines = [(line["round"], line["evaluated"]) for line in run.rounds if line.get("evaluated")]
    if not lines:
        return None
    x = [round for round, _ in lines]
    accuracy, low, high = ([found[name] for _, found in lines] for name in ("accuracy", "low", "high"))
    figure, (axes,) = new_figure(3.2)
    axes.fill_between(x, low, high, color=BLUE, alpha=0.15, lw=0)
    draw_curve(axes, x, accuracy, BLUE)
    ends = [(x[-1], accuracy[-1], f"{accuracy[-1]:.3f}\nby answers", BLUE)]
    other, measured = evaluated_rounds(run, "accuracy")
    if measured:
        draw_curve(axes, other, measured, MUTED, lw=1)
        ends.append((other[-1], measured[-1], f"{measured[-1]:.3f}\nheld out", MUTED))
    axes.set_title("accuracy")
    axes.set_ylim(0, 1)
    over_rounds(axes, [*x, *other])
    label_ends(axes, ends, size=8)
    note = "Shaded: where it lies 19 times in 20, if every client draws its answer as the mechanism says."
    return figure, f"By clients' answers, in round {x[-1]}: {answers_words(lines[-1][1])}.", note


def labels_figure(run: Run) -> Drawn | None:
    """The figure of a report on which classes clients' records are of, by the labels they told; or None."""
    if (found := run.last("labels")) is None:
        return None
    share, low, high = ([own[name] for own in found["classes"]] for name in ("share", "low", "high"))
    figure, (axes,) = new_figure(2.6)
    at = range(len(share))
    axes.vlines(at, low, high, color=BLUE, alpha=0.3, lw=4)
    axes.plot(at, share, "o", color=BLUE, ms=4)
    axes.set_title("share of records")
    axes.set_xlabel("class")
    axes.set_ylim(min(0, *share), max(*high, *share) * 1.05)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    words = "; ".join(" ".join(row).strip() for row in labels_rows(found))
    note = "Bars: where the shares of all classes lie together 19 times in 20, if every client draws as it says."
    return figure, f"By {words}.", note


def epsilon_figure(run: Run) -> Drawn | None:
    """The report's figure of ε over a run's rounds: certified, reached by data, and the CLT's estimate."""
    lines = [line for line in run.rounds if line["epsilon"] is not None and isfinite(line["epsilon"]["upper"])]
    if not lines:
        return None
    x = [line["round"] for line in lines]
    low, high, clt = (
        [nan if line["epsilon"][name] is None else line["epsilon"][name] for line in lines]
        for name in ("lower", "upper", "clt")
    )
    figure, (axes,) = new_figure(3.2)
    axes.fill_between(x, low, high, color=BLUE, alpha=0.15, lw=0)
    draw_curve(axes, x, high, BLUE)
    draw_curve(axes, x, low, BLUE, lw=1, alpha=0.7)
    ends = [(x[-1], high[-1], f"at most {rounded_up(high[-1])}\ncertified", BLUE)]
    if isfinite(low[-1]):
        shown = "some data reach it" if low[-1] else "nothing is shown"
        ends.append((x[-1], low[-1], f"at least {rounded_down(low[-1])}\n{shown}", BLUE))
    if isfinite(clt[-1]):
        axes.plot(x, clt, color=RED, lw=1.4, ls=(0, (4, 2)), zorder=4)
        ends.append((x[-1], clt[-1], f"CLT {clt[-1]:.4g}\n{ASYMPTOTIC}", RED))
    if run.early and run.epsilon is not None and isfinite(most := run.epsilon["upper"]):
        axes.plot(x, [most] * len(x), color=BLUE, lw=1, ls=(0, (1, 2)))
        ends.append((x[-1], most, f"at most {rounded_up(most)}\nof this run", BLUE))
    axes.set_title(f"ε at δ = {short_number(run.header['delta'])}")
    axes.set_ylim(bottom=0)
    over_rounds(axes, x)
    label_ends(axes, ends, size=8)
    said = " and ".join(words.replace("\n", ", ") for _, _, words, _ in ends)
    note = "Between the two blue lines lies the truth" + (f"{BEFOREHAND}. Dotted: this run's ε" * run.early) + "."
    if isfinite(clt[-1]):
        note += " The dashed line is the estimate of the central limit theorem, asymptotic: it bounds nothing."
    return figure, f"ε over {x[-1]} rounds; at the end {said}.", note


def adapted_figure(run: Run) -> Drawn | None:
    """The report's figure of a release's adaptive settings over a run's rounds; None where none adapt."""
    lines = [line for line in run.rounds if line.get("adapted")]
    if not lines:
        return None
    x, first, last = [line["round"] for line in lines], lines[0]["adapted"], lines[-1]["adapted"]
    figure, axes = new_figure(0.6 + 2.2 * len(first), [1] * len(first))
    for place, name in zip(axes, first, strict=True):
        draw_curve(place, x, [line["adapted"][name] for line in lines], BLUE)
        place.set(title=name, ylim=(0, None))
        over_rounds(place, x)
        place.label_outer()
        label_ends(place, [(x[-1], last[name], f"{last[name]:.4g}", BLUE)])
    said = ", ".join(f"{name} {first[name]:.4g} to {last[name]:.4g}" for name in first)
    note = "The mean over clients. Each client's moves by what it has released and nothing else: it costs nothing."
    return figure, f"What adapts, over rounds: {said}.", note


def tradeoff_figure(run: Run) -> Drawn | None:
    """The report's figure of the errors an attacker must make on the worst client, over a run; None without ε."""
    if run.account is None:
        return None
    alpha = np.unique(np.concatenate((np.linspace(0, 1, 301), np.geomspace(1e-5, 0.05, 100))))
    below, above = run.tradeoff(alpha, ROUGH)
    mu, proven = gaussian_beside(run.account, below, alpha)
    shown = rounded_up(mu) if proven else short_number(mu, 4)
    figure, (axes,) = new_figure(4.6)
    axes.plot(alpha, 1 - alpha, color=MUTED, lw=0.8)
    axes.text(0.47, 0.535, "nothing given away", rotation=-45, ha="center", va="bottom", color=MUTED,
              fontsize=in_points(8), rotation_mode="anchor")  # fmt: skip
    axes.fill_between(alpha, below, above, color=BLUE, alpha=0.15, lw=0)
    axes.plot(alpha, below, color=BLUE, clip_on=False, zorder=3)
    axes.plot(alpha, Tradeoff.gaussian(mu)(alpha), color=RED, lw=1.4, ls=(0, (4, 2)), clip_on=False, zorder=3)
    key = [
        ("certified: no attack gets below", BLUE), ("shaded: as far as explicit data reach", BLUE),
        (f"dashed: Gaussian, μ = {shown},", RED),
        ("below the certified by proof" if proven else "drawn to meet it at α = β", RED),
    ]  # fmt: skip
    for place, (text, colour) in enumerate(key):
        axes.text(0.985, 0.975 - 0.052 * place, text, color=colour, fontsize=in_points(8), ha="right", va="top")
    axes.set(xlabel="type I error α", ylabel="type II error β", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.grid(axis="x")
    meets = float(np.interp(0.0, alpha - below, alpha))
    alt = f"Tradeoff curve of {run.releases} releases: who makes both errors equally often makes each at {meets:.3f}."
    note = f"Who guesses which of two data sets it was errs this often; for {whose_words(run)}."
    return figure, alt + f" Beside it the Gaussian curve with μ = {shown}.", note


def beta_figure(run: Run) -> Drawn | None:
    """How many clients, or records, an attacker finds at each share of false alarms, over rounds: 1 − β, certified."""
    lines = [line for line in run.rounds if line.get("beta")]
    if not lines:
        return None
    figure, (axes,) = new_figure(3.2)
    x, ends = [line["round"] for line in lines], []
    for level, colour in zip(lines[-1]["beta"], (MUTED, BLUE, GREEN, RED), strict=False):
        most, least = ([1 - line["beta"][level][side] for line in lines] for side in ("lower", "upper"))
        axes.fill_between(x, least, most, color=colour, alpha=0.15, lw=0)
        draw_curve(axes, x, most, colour)
        ends.append((x[-1], most[-1], f"{rounded_up(most[-1])} at α = {level}", colour))
    axes.set_title("share found, at most, at false alarms α")
    axes.set_ylim(0, 1)
    over_rounds(axes, x)
    label_ends(axes, ends, size=8)
    said = "; ".join(words for _, _, words, _ in ends)
    note = f"Certified: no attacker finds more{BEFOREHAND * run.early}. Shaded: as far as explicit data reach."
    return figure, f"Share found by an attacker over {x[-1]} rounds, at the end at most {said}.", note
