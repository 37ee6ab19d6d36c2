"""What a sweep has found, in sentences: which defence holds, where it breaks, what is promised, what is missing."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

from clients.data.identity import in_words
from fedpriv._base.spelling import rounded_up, short_number
from fedpriv.trust import Word, sums_only
from server.progress.words import ASSUMED, ranges_words, share_words, tally_words, unit_and_trust
from simulations.figures.intervals import FEWEST
from simulations.figures.tables import Table
from simulations.report.sweep._axes import first_few
from simulations.report.sweep._backdoors import backdoor_sentences
from simulations.report.sweep._chosen import choosing_words
from simulations.report.sweep._order import BEHIND, HOW, behind, order_sentences
from simulations.report.sweep._standing import KEPT, OPENED, UNTRIED, Standings
from simulations.report.sweep.cells import Ran, State, Sweep
from simulations.report.sweep.grid import Grid

SAME = 0.95  # bounds that lie no farther apart are of one target
BY_SEED = "; by the 95% interval of the difference by seed, each by itself"
BY_MEAN = "; by means alone, as seeds are too few for an interval"
STATES: dict[State, str] = {
    "failed": "failed", "untried": "whose attack was not tried", "unfinished": "cut short or still running",
    "missing": "not run yet",
}  # fmt: skip


def progress(sweep: Sweep) -> str:
    """How far a sweep is, in words for its report: "48 cells", or "31 of 48 cells"."""
    done, every = len(sweep.done), len(sweep.cells)
    return _cells(every) if done == every else f"{done:,} of {_cells(every)}"


def _cells(number: int) -> str:
    """A number of a sweep's cells in words, as "1 cell" or "48 cells"."""
    return f"{number:,} cell{'s' * (number != 1)}"


def lacking(sweep: Sweep) -> str:
    """How many cells of a sweep do not count, by reason, in words; "" where all do."""
    counts = Counter(cell.state for cell in sweep.cells)
    return ", ".join(f"{counts[state]:,} {words}" for state, words in STATES.items() if counts[state])


def answer(standings: Standings) -> list[str]:
    """What a sweep has found, in sentences for page and terminal: which defence holds, which breaks, single cells."""
    grid, known = standings.grid, standings.known
    if not known:
        return ["No accuracy is known yet: " + (lacking(grid.sweep) or "no cell measured any") + "."]
    said = order_sentences(standings)
    if standings.attacked:
        said.append(_survivors(standings))
    said += backdoor_sentences(grid)
    cells = [cell for spot in grid.spots for cell in spot.counted]
    extremes = [choice(cells, key=lambda cell: cell.accuracy or 0.0) for choice in (min, max)]
    low, high = (f"{share_words(cell.accuracy)} ({grid.cell(cell)})" for cell in extremes)
    return [*said, f"One cell is known: {high}." if len(cells) == 1 else f"Single cells go from {low} to {high}."]


def standings_table(standings: Standings) -> Table:
    """How the defences of a sweep stand, a row each: what they keep, how far behind the first, what they survive."""
    columns = [0, 1, 2] + [3] * standings.ranking.ranked + [4] * standings.attacked
    head = ["defence", "on average", "at the least", BEHIND, "survives"]
    rows = [
        [standings.grid.defence(each.defence), each.words, each.least.words if each.least else "–",
         behind(standings, each), each.overall.words] for each in standings.order
    ]  # fmt: skip
    return [head[at] for at in columns], [[row[at] for at in columns] for row in rows]


def caveats(standings: Standings) -> list[str]:
    """What to know before believing a sweep, in sentences: what is missing, mixed or unheard, seeds, promises."""
    grid, sweep, said = standings.grid, standings.grid.sweep, list[str]()
    if lacking(sweep):
        said.append(f"{progress(sweep)} are done; {lacking(sweep)}. Means are over what is done.")
        if any(0 < len(field.known) < len(field.spots) for field in grid.fields):
            said[0] += " Where an attack is missing, the worst of the others is given as “≤”: " \
                       "the truth can only be lower."  # fmt: skip
        common, conditions = len(standings.common), len(grid.conditions)
        if common < conditions and len(standings.known) > 1:
            ranked = f"Defences are compared on the {common} of {conditions} conditions known for each."
            none = "No condition is known for every defence yet, so their order means nothing."
            said[0] += f" {ranked if common else none}"
    for spot in grid.spots:
        of = {cell.ran.data["sha256"]: cell for cell in spot.cells if cell.ran and cell.ran.data}
        if len(of) > 1:  # no table may pass over it
            told = "; ".join(f"seed {cell.seed} on {_read(cell.ran)}" for cell in of.values() if cell.ran)
            said.append(f"Seeds of one study are of DIFFERENT DATA, so that their mean says nothing: {told}.")
            break
    said += choosing_words(grid) + [HOW] * standings.ranking.ranked + _doubts(grid) + guarantees(sweep)
    by_data: dict[str, list[Ran]] = {}
    for run in sweep.ran:
        by_data.setdefault(run.data["sha256"] if run.data else "", []).append(run)
    said += [
        f"{_cells(len(runs))} {'is' if len(runs) == 1 else 'are'} of {_read(runs[0])}." for runs in by_data.values()
    ]
    return said


def _read(run: Ran) -> str:
    """The data that a cell's run was made on, in words for a sweep's caveats."""
    return in_words(run.data, run.where) if run.data else "data that an earlier version did not name"


def _doubts(grid: Grid) -> list[str]:
    """Sentences of a sweep's caveats: attacks not tried, messages that did not count, and how much is luck."""
    sweep, said = grid.sweep, []
    if cells := sweep.those("untried"):
        whys = list(dict.fromkeys(f"{cell.ran.attack if cell.ran else 'the attack'}: {cell.why}" for cell in cells))
        more = f", and {len(whys) - 1} other reasons" if len(whys) > 1 else ""
        said.append(f"In {_cells(len(cells))} the attack was not tried, as it failed at every Byzantine "
                    f"client ({whys[0]}{more}): nothing is known of it.")  # fmt: skip
    if some := [(cell, cell.ran) for cell in sweep.done if cell.ran and (cell.ran.failed or cell.ran.rejected)]:
        most, ran = max(some, key=lambda each: sum(each[1].failed.values()) + sum(each[1].rejected.values()))
        where, told = ", ".join(most.place.values()) or f"seed {most.seed}", tally_words({**ran.failed, **ran.rejected})
        said.append(f"In {_cells(len(some))} clients failed or were rejected: their messages did not count; "
                    f"most in {where}: {told}.")  # fmt: skip
    tests = max((run.test_examples for run in sweep.ran), default=0)
    error = f" Accuracy is measured on {tests:,} examples held out, the same for all seeds; that they are a sample " \
            f"is in no ±: one standard error of it is at most {50 / tests**0.5:.2g} percentage points." \
            if tests else ""  # fmt: skip
    if len(sweep.seeds) == 1:
        return [*said, f"One seed ({sweep.seeds[0]}): nothing here tells how much is luck.{error}"]
    halves = [spot.accuracy.half for spot in grid.spots if spot.accuracy and spot.accuracy.half is not None]
    typical = (
        f"; ± is half of the 95% interval over them (Student's t), {fmean(halves):.3f} on average" if halves else ""
    )
    seeds = f"{len(sweep.seeds)} seeds ({ranges_words(sorted(sweep.seeds))})"
    return [*said, f"Every number is a mean over {seeds} unless it says otherwise{typical}.{error}"]


def _survivors(standings: Standings) -> str:
    """The sentence on which defences of a sweep survive everything tried, and what that means."""
    names = [standings.grid.defence(each.defence) for each in standings.order if each.overall.grade == "all"]
    keeps = f"to survive is to keep {100 * KEPT:.0f}% of the best accuracy of any cell at the same privacy and setting"
    if not standings.unattacked:
        keeps += " (which may itself be under attack)"
    if standings.grid.backdoors:
        keeps += f", and to take at most {OPENED:.0%} of the records with a backdoor's trigger for its target"
    keeps += BY_SEED if len(standings.grid.sweep.seeds) >= FEWEST else BY_MEAN
    if all(each.overall.words == UNTRIED for each in standings.order):
        return "No attack was tried, so none was survived."
    if len(standings.known) == 1:
        verdict = "may survive" if standings.order[0].overall.grade == "open" else "does not survive"
        return f"It {'survives' if names else verdict} everything tried; {keeps}."
    if open_ := sum(each.overall.grade == "unknown" for each in standings.order):
        keeps = f"{open_} more survive what has been run so far; {keeps}"
    number = f"{len(names)} of {len(standings.known)}" if names else f"None of the {len(standings.known)}"
    who = f" ({first_few(names, ', ')})" if names else ""
    undecided = sum(each.overall.grade == "open" for each in standings.order)
    who += f", {undecided} more may, which seeds cannot tell" if undecided else ""
    return f"{number} defences survive{'s' * (not names)} everything tried{who}; {keeps}."


def guarantees(sweep: Sweep) -> list[str]:
    """What a sweep's cells promise each client, a sentence for every kind of promise, for its caveats."""
    found: dict[tuple[str, Word, str, float] | None, list[Ran]] = {}
    for run in sweep.ran:
        found.setdefault(run.guarantee, []).append(run)
    said = []
    for promise, runs in found.items():
        if promise is None:
            said.append(f"{_cells(len(runs))} promise{'s' * (len(runs) == 1)} no privacy: ε = ∞.")
            continue
        unit, trust, adjacency, delta = promise
        bound = (
            f"ε ≤ {epsilon_range([run.upper for run in runs if run.upper is not None])} at δ = {short_number(delta)}"
        )
        said.append(f"{bound} in {_cells(len(runs))}, certified: {unit_and_trust(trust, unit, adjacency)}.")
    if any(promise and sums_only(promise[1]) for promise in found):
        said.append(ASSUMED.replace("This guarantee", "The guarantee under secure aggregation"))
    return said + price_of_looking(sweep)


def price_of_looking(sweep: Sweep) -> list[str]:
    """What the cells of a sweep come to together, in a sentence for its page: a best cell's own ε is not its price."""
    told = [
        f"{_cells(each['cells'])} come to ε ≤ {rounded_up(each['epsilon'])} at δ = {short_number(each['delta'])} "
        f"({each['unit']} level, {each['adjacency']} adjacency)"
        for each in sweep.added_up
        if each["cells"] > 1
    ]
    if not told:
        return []
    beside = ", each sum of its own cells alone" * (len(told) > 1)
    if sweep.not_added:
        beside += f"; {_cells(sweep.not_added)} more, begun, that promise nothing or are not known to the end: no sum"
    return [
        "To look at all cells and take the best costs what they add up to, not the best one's own ε: had each drawn "
        f"noise of its own, {'; '.join(told)}, certified{beside}. Cells of one seed share their noise, "
        "which no ε covers. On public data choosing costs nobody anything; on "
        "others', fedpriv sweep --private chooses at an ε of its own."
    ]


def epsilon_range(uppers: list[float]) -> str:
    """The smallest and largest certified ε of a sweep's cells in words; one where a calibration meant them the same.

    >>> epsilon_range([2.0, 4.00012, float("inf")]), epsilon_range([1.99, 2.0]), epsilon_range([])
    ('2 to ∞', '2', '?')
    """
    if not uppers:
        return "?"
    low, high = min(uppers), max(uppers)
    return rounded_up(high) if low >= SAME * high else f"{rounded_up(low)} to {rounded_up(high)}"
