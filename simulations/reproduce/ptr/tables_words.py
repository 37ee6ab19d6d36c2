"""What a table of [P] shows, in sentences computed from its numbers."""

from __future__ import annotations

from math import sqrt

from server.progress.words import ranges_words
from simulations.reproduce.ptr._tables import BOUND
from simulations.reproduce.ptr.tables_found import Difference, Found
from simulations.reproduce.ptr.tables_published import DPSGD, GAUSSIAN, NONE, PTR, TABLES, PaperTable

Spot = tuple[str, float]  # row and ε


def finding_words(found: Found) -> list[str]:
    """Sentences on whether TSGD+PTR beats the other two releases in a table, and what [P] says."""
    table = TABLES[found.sweep.name]
    struck = [spot for spot in table.published if spot[0].startswith(("label", "gradient", "targeted"))]
    others = [spot for spot in table.published if spot not in struck]
    gains = [ptr - plain for _, plain, ptr in table.published.values() if plain is not None]
    paper = f"[P]: in {sum(gain > 0 for gain in gains)} of {len(gains)}"
    said = [
        _beats(found, struck, GAUSSIAN, "labels or gradients corrupted", "[P]: in all of them"),
        _beats(found, others, GAUSSIAN, "features or nothing corrupted", "[P]: in all of them"),
        _beats(
            found, list(table.published), DPSGD, "all rows", paper if gains else "[P] has DPSGD in its Table 4 only"
        ),
    ]
    return [words for words in said if words]


def _beats(found: Found, spots: list[Spot], other: str, where: str, paper: str) -> str:
    """A sentence on TSGD+PTR against another release in some places of the table; "" if none of them ran.

    `where` says which they are, `paper` what [P] has.
    """
    all_of_them = {spot: found.difference(*spot, PTR, other) for spot in spots}
    known = {spot: difference for spot, difference in all_of_them.items() if difference is not None}
    if not known:
        return ""
    above, level, below = ([spot for spot, each in known.items() if each.verdict == sign] for sign in (1, 0, -1))
    mean = sum(each.mean for each in known.values()) / len(known)
    words = f"{PTR} beats {other} in {len(above)} of {len(known)} places ({where})"
    if above:
        words += f", by {_points(known, above)}"
    if level:
        words += f"; not told apart from it in {len(level)}{_places(level)}"
    if below:
        words += f"; below it in {len(below)}, by {_points(known, below)}{_places(below)}"
    return f"{words}. On average {signed_points(mean)} points. {paper}."


def signed_points(share: float) -> str:
    """A share as percentage points with their sign, in a table's words.

    >>> signed_points(0.118), signed_points(-0.051)
    ('+11.8', '−5.1')
    """
    return f"{100 * share:+.1f}".replace("-", "−")


def _points(known: dict[Spot, Difference], spots: list[Spot]) -> str:
    """By how many points TSGD+PTR differs from another release in these places, from least to most, in words."""
    sizes = [100 * abs(known[spot].mean) for spot in spots]
    return f"{min(sizes):.1f} points" if len(sizes) == 1 else f"{min(sizes):.1f} to {max(sizes):.1f} points"


def _places(spots: list[Spot]) -> str:
    """The places of a table, rows and ε, in words behind a colon; "" where they are more than six."""
    return f": {', '.join(f'{row} at ε = {epsilon:g}' for row, epsilon in spots)}" if len(spots) <= 6 else ""


def why_words(found: Found) -> list[str]:
    """Sentences on why a table is as it is: noise at equal ε, how often tests passed, what corruption is left."""
    release, study, table = found.study.privacy.release, found.study, TABLES[found.sweep.name]
    assert release is not None
    struck = 0.2 * float(release.settings["sampling"]) * study.clients.records
    plain = [found.noise(epsilon, DPSGD) for epsilon in table.epsilons]
    least = min((each for each in plain if each is not None), default=None)
    noise = "" if least is None else f", beside privacy's noise of length {least * sqrt(found.dimension):.0f} R or more"
    random = any(row.startswith("gradient 0") for row in table.rows)
    length = f"; noisy ones add up to a sum of length about {sqrt(struck):.0f} R{noise}" if random else ""
    clipped = (
        f"{DPSGD} spends nothing on tests or trimming, and clips: at ratio .2 the {struck:.0f} corrupted gradients of "
        f"a batch have norm at most R each{length}."
    )
    return [*_of_noise(found, table), *_of_passes(found, table), *_of_trimming(found, table), clipped]


def _of_noise(found: Found, table: PaperTable) -> list[str]:
    """Sentences on the noise that each release of a table has at equal ε and as many steps."""
    noises = []
    for epsilon in table.epsilons:
        plain, tested = found.noise(epsilon, DPSGD), found.noise(epsilon, PTR)
        if plain is not None and tested is not None:
            noises.append(
                f"At ε = {epsilon:g} the noise on a sum is {plain:.3f} R for {DPSGD} and {GAUSSIAN} alike; for {PTR}, "
                f"whose test costs something as well, {tested:.3f} R after a test that failed and "
                f"{BOUND * tested:.3f} R after one that passed (τ/R = {BOUND:g})."
            )
    return noises


def _of_passes(found: Found, table: PaperTable) -> list[str]:
    """Sentences on how often TSGD+PTR's test passed in the rows of a table, for each ε."""
    passes = []
    for epsilon in table.epsilons:
        shares = {row: found.passed(row, epsilon) for row in table.rows}
        each = ", ".join(f"{row} {100 * share:.0f}%" for row, share in shares.items() if share is not None)
        if each:
            passes.append(f"Steps in which the test passed, at ε = {epsilon:g}: {each}.")
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
    places = []
    for row, epsilon in table.published:
        difference = found.difference(row, epsilon, PTR, GAUSSIAN)
        lost, share = found.difference(row, epsilon, DPSGD, GAUSSIAN), found.passed(row, epsilon)
        if difference is not None and difference.verdict <= 0 and lost is not None and share is not None:
            apart = f"{DPSGD} is {signed_points(lost.mean)} points from {GAUSSIAN}"
            places.append(f"{row} at ε = {epsilon:g} ({apart}, the test passed in {100 * share:.0f}% of steps)")
    return [*said, f"Where {PTR} does not beat {GAUSSIAN}: {'; '.join(places)}."] if places else said


def standing_words(found: Found) -> str:
    """How much of a table's grid is done, and which places are without any cell, in words for its page."""
    cells, done = found.sweep.cells, found.sweep.done
    words = f"{len(done):,} of {len(cells):,} cells, seeds {ranges_words(sorted({cell.seed for cell in done}))}"
    without = [
        f"{row}, ε = {epsilon:g}, {release}"
        for row, epsilon in TABLES[found.sweep.name].published
        for release in (GAUSSIAN, DPSGD, PTR)
        if not found.accuracies(row, epsilon, release)
    ]
    if without:
        words += f"; without any: {'; '.join(without)} (the same command goes on)"
    elif len(done) < len(cells):
        words += "; every place has at least one (the same command goes on)"
    return words
