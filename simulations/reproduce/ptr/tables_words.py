"""What a table of [P] shows, in sentences computed from its numbers."""

from __future__ import annotations

from itertools import product
from math import sqrt

from server.progress.words import ranges_words
from simulations.figures.intervals import FEWEST, Interval
from simulations.reproduce.ptr._tables import BOUND
from simulations.reproduce.ptr.tables_found import Found
from simulations.reproduce.ptr.tables_published import DPSGD, GAUSSIAN, NONE, PTR, PaperTable

Spot = tuple[str, float]  # row and ε


def finding_words(found: Found) -> list[str]:
    """Sentences on whether TSGD+PTR beats the other releases in a table, by each test, and what [P] says."""
    table = found.table
    struck = [spot for spot in table.published if spot[0].startswith(("label", "gradient", "targeted"))]
    others = [spot for spot in table.published if spot not in struck]
    gains = [ptr - plain for _, plain, ptr in table.published.values() if plain is not None]
    paper = f"[P]: in {sum(gain > 0 for gain in gains)} of {len(gains)}"
    said = []
    for one, other in table.pairs:
        if other == GAUSSIAN:
            said.append(_beats(found, struck, (one, other), "labels or gradients corrupted", "[P]: in all of them"))
            said.append(_beats(found, others, (one, other), "features or nothing corrupted", "[P]: in all of them"))
        else:
            theirs = paper if gains else "[P] has DPSGD in its Table 4 only"
            said.append(_beats(found, list(table.published), (one, other), "all rows", theirs))
    return [words for words in said if words]


def _beats(found: Found, spots: list[Spot], pair: tuple[str, str], where: str, paper: str) -> str:
    """A sentence on TSGD+PTR against another release in some places of the table; "" if none of them ran.

    `where` says which they are, `paper` what [P] has of its own test.
    """
    one, other = pair
    all_of_them = {spot: found.difference(*spot, one, other) for spot in spots}
    known = {spot: difference for spot, difference in all_of_them.items() if difference is not None}
    if not known:
        return ""
    above, level, below = ([spot for spot, each in known.items() if each.side == sign] for sign in (1, 0, -1))
    mean = sum(each.mean for each in known.values()) / len(known)
    words = f"{one} beats {other} in {len(above)} of {len(known)} places ({where})"
    if above:
        words += f", by {_points(known, above)}"
    if level:
        fewest = min(each.seeds for each in known.values())
        few = f" (of {fewest} seeds; {FEWEST} can tell)" * (fewest < FEWEST)
        words += f"; not told apart from it in {len(level)}{_places(level)}{few}"
    if below:
        words += f"; below it in {len(below)}, by {_points(known, below)}{_places(below)}"
    theirs = f" {paper}." if one == PTR else ""
    return f"{words}. On average {signed_points(mean)} points.{theirs}"


def signed_points(share: float) -> str:
    """A share as percentage points with their sign, in a table's words.

    >>> signed_points(0.118), signed_points(-0.051)
    ('+11.8', '−5.1')
    """
    return f"{100 * share:+.1f}".replace("-", "−")


def _points(known: dict[Spot, Interval], spots: list[Spot]) -> str:
    """By how many points TSGD+PTR differs from another release in these places, from least to most, in words."""
    sizes = [100 * abs(known[spot].mean) for spot in spots]
    return f"{min(sizes):.1f} points" if len(sizes) == 1 else f"{min(sizes):.1f} to {max(sizes):.1f} points"


def _places(spots: list[Spot]) -> str:
    """The places of a table, rows and ε, in words behind a colon; "" where they are more than six."""
    return f": {', '.join(f'{row} at ε = {epsilon:g}' for row, epsilon in spots)}" if len(spots) <= 6 else ""


def why_words(found: Found) -> list[str]:
    """Sentences on why a table is as it is: noise at equal ε, how often tests passed, what corruption is left."""
    release, study, table = found.study.privacy.release, found.study, found.table
    assert release is not None
    struck = 0.2 * float(release.settings["sampling"]) * study.clients.records
    plain = [found.noise(epsilon, table.releases[0]) for epsilon in table.epsilons]
    least = min((each for each in plain if each is not None), default=None)
    noise = "" if least is None else f", beside privacy's noise of length {least * sqrt(found.dimension):.0f} R or more"
    random = any(row.startswith("gradient 0") for row in table.rows)
    length = f"; noisy ones add up to a sum of length about {sqrt(struck):.0f} R{noise}" if random else ""
    clipped = (
        f"{DPSGD} spends nothing on tests or trimming, and clips: at ratio .2 the {struck:.0f} corrupted gradients of "
        f"a batch have norm at most R each{length}."
    )
    lost = _of_trimming(found, table) if GAUSSIAN in table.releases else []
    return [*_of_noise(found, table), *_of_passes(found, table), *lost, clipped]


def _of_noise(found: Found, table: PaperTable) -> list[str]:
    """Sentences on the noise that each release of a table has at an ε, and on steps where they are not alike."""
    said = []
    for epsilon in table.epsilons:
        each = {release: found.noise(epsilon, release) for release in table.releases}
        words = [f"{noise:.3f} R for {release}" for release, noise in each.items() if noise is not None]
        if words:
            said.append(
                f"At ε = {epsilon:g} the noise on a sum is {', '.join(words)}; after a test that passed it is "
                f"{BOUND if not table.colour else 2 / 3:.3g} of that (τ/R)."
            )
        steps = {release: found.steps(epsilon, release) for release in table.releases}
        if len({many for many in steps.values() if many is not None}) > 1:
            took = ", ".join(f"{many:,} of {release}" for release, many in steps.items() if many is not None)
            said.append(f"Steps until ε = {epsilon:g} was spent: {took}. Whoever takes more has trained for longer.")
    return said


def _of_passes(found: Found, table: PaperTable) -> list[str]:
    """Sentences on how often each of TSGD+PTR's tests passed in the rows of a table, for each ε."""
    passes = []
    for tested, epsilon in product(table.tested, table.epsilons):
        shares = {row: found.passed(row, epsilon, tested) for row in table.rows}
        each = ", ".join(f"{row} {100 * share:.0f}%" for row, share in shares.items() if share is not None)
        if each:
            passes.append(f"Steps in which the test of {tested} passed, at ε = {epsilon:g}: {each}.")
    if passes:
        passes.append(
            f"In all the others nothing is trimmed, and {PTR} is {DPSGD} with the larger noise: where its test "
            f"seldom passes it beats {GAUSSIAN} by not trimming."
        )
    return passes


def _of_trimming(found: Found, table: PaperTable) -> list[str]:
    """Sentences on what trimming a quarter of good records costs, and where it alone is as good as with tests."""
    losses = {epsilon: found.difference(NONE, epsilon, DPSGD, GAUSSIAN) for epsilon in table.epsilons}
    costs = [f"{100 * own.mean:.1f} points at ε = {epsilon:g}" for epsilon, own in losses.items() if own is not None]
    said = [
        f"With nothing corrupted, leaving out the longest quarter costs {GAUSSIAN} {' and '.join(costs)} against "
        f"{DPSGD} of the same noise ([P]: the longest gradients are of records not learnt yet)."
    ] * bool(costs)
    for tested in table.tested:
        places = []
        for row, epsilon in table.published:
            difference = found.difference(row, epsilon, tested, GAUSSIAN)
            lost, share = found.difference(row, epsilon, DPSGD, GAUSSIAN), found.passed(row, epsilon, tested)
            if difference is not None and difference.side <= 0 and lost is not None and share is not None:
                apart = f"{DPSGD} is {signed_points(lost.mean)} points from {GAUSSIAN}"
                places.append(f"{row} at ε = {epsilon:g} ({apart}, the test passed in {100 * share:.0f}% of steps)")
        said += [f"Where {tested} does not beat {GAUSSIAN}: {'; '.join(places)}."] * bool(places)
    return said


def standing_words(found: Found) -> str:
    """How much of a table's grid is done, and which places are without any cell, in words for its page."""
    cells, done = found.sweep.cells, found.sweep.done
    words = f"{len(done):,} of {len(cells):,} cells, seeds {ranges_words(sorted({cell.seed for cell in done}))}"
    without = [
        f"{row}, ε = {epsilon:g}, {release}"
        for row, epsilon in found.table.published
        for release in found.table.releases
        if not found.accuracies(row, epsilon, release)
    ]
    if without:
        words += f"; without any: {'; '.join(without)} (the same command goes on)"
    elif len(done) < len(cells):
        words += "; every place has at least one (the same command goes on)"
    return words
