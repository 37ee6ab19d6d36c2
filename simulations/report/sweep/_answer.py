"""What a sweep has found, in sentences: which defence holds, where it breaks, what is promised, what is missing."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

from clients.data.identity import in_words
from fedpriv.trust import Word, sums_only
from server.progress.words import ASSUMED, how, ranges, share, small, tally, up
from simulations.report.sweep._spots import Field, Spread
from simulations.report.sweep._standing import KEPT, UNTRIED, Standing, Standings
from simulations.report.sweep.cells import Cell, Ran, State, Sweep
from simulations.report.sweep.grid import Grid

SAME = 0.95  # bounds that lie no farther apart are of one target
STATES: dict[State, str] = {
    "failed": "failed", "untried": "whose attack was not tried", "unfinished": "cut short or still running",
    "missing": "not run yet",
}  # fmt: skip


def progress(sweep: Sweep) -> str:
    """How far it is: "48 cells", or "31 of 48 cells"."""
    done, all_cells = len(sweep.done), len(sweep.cells)
    plural = "s" * (all_cells != 1)
    return f"{all_cells:,} cell{plural}" if done == all_cells else f"{done:,} of {all_cells:,} cell{plural}"


def lacking(sweep: Sweep) -> str:
    """How many cells do not count, by reason; "" where all do."""
    counts = Counter(cell.state for cell in sweep.cells)
    return ", ".join(f"{counts[state]:,} {words}" for state, words in STATES.items() if counts[state])


def answer(standings: Standings) -> list[str]:
    """The findings, the most telling first."""
    grid = standings.grid
    if not standings.known:
        return ["No accuracy is known yet: " + (lacking(grid.sweep) or "no cell measured any") + "."]
    best, last = standings.order[0], standings.order[-1]
    said = [_first(standings, best)]
    if last is not best:
        said.append(_last(standings, last))
    if standings.attacked:
        said.append(_survivors(standings))
    said.append(_extremes(grid))
    return said


def caveats(standings: Standings) -> list[str]:
    """What to know before believing it: seeds, what is missing, what is promised."""
    grid, sweep = standings.grid, standings.grid.sweep
    said = [
        _completeness(standings),
        _mixed(grid),
        _untried(grid),
        _silent(sweep),
        _seeds(grid),
        *guarantees(sweep),
        *_data(sweep),
    ]
    return [each for each in said if each]


def _mixed(grid: Grid) -> str:
    """Where cells that differ in nothing but the seed are of different data: no table may pass over it."""
    for spot in grid.spots:
        found = {cell.ran.data["sha256"]: cell for cell in spot.cells if cell.ran and cell.ran.data}
        if len(found) > 1:
            told = "; ".join(f"seed {cell.seed} on {_read(cell.ran)}" for cell in found.values() if cell.ran)
            return f"Seeds of one study are of DIFFERENT DATA, so that their mean says nothing: {told}."
    return ""


def _data(sweep: Sweep) -> list[str]:
    """What was read, a sentence for every data set."""
    found: dict[str, list[Ran]] = {}
    for run in sweep.ran:
        found.setdefault(run.data["sha256"] if run.data else "", []).append(run)
    return [f"{_cells(len(runs))} {'is' if len(runs) == 1 else 'are'} of {_read(runs[0])}." for runs in found.values()]


def _read(run: Ran) -> str:
    return in_words(run.data, run.where) if run.data else "data that an earlier version did not name"


def _cells(number: int) -> str:
    return f"{number:,} cell{'s' * (number != 1)}"


def _untried(grid: Grid) -> str:
    """An attack that breaks is no attack that was survived."""
    cells = grid.sweep.those("untried")
    if not cells:
        return ""
    whys = list(dict.fromkeys(f"{cell.ran.attack if cell.ran else 'the attack'}: {cell.why}" for cell in cells))
    more = f", and {len(whys) - 1} other reasons" if len(whys) > 1 else ""
    return (
        f"In {len(cells):,} cell{'s' * (len(cells) != 1)} the attack was not tried, as it failed at every Byzantine "
        f"client ({whys[0]}{more}): nothing is known of it."
    )


def _silent(sweep: Sweep) -> str:
    """Where clients sent nothing that counted."""
    some = [cell for cell in sweep.done if cell.ran and (cell.ran.failed or cell.ran.rejected)]
    if not some:
        return ""
    most = max(
        some, key=lambda cell: sum(cell.ran.failed.values()) + sum(cell.ran.rejected.values()) if cell.ran else 0
    )
    where = ", ".join(most.place.values()) or f"seed {most.seed}"
    cells = f"{len(some):,} cell{'s' * (len(some) != 1)}"
    assert most.ran is not None
    told = tally({**most.ran.failed, **most.ran.rejected})
    return f"In {cells} clients failed or were rejected: their messages did not count; most in {where}: {told}."


def under(grid: Grid) -> str:
    """What the defences were up against."""
    runs = grid.sweep.ran
    if runs and not any(run.byzantine for run in runs):
        return "With nobody attacking"
    attacks = len(grid.attacks)
    if attacks > 1 and any(field.partial for field in grid.fields):
        return f"So far, not under all of {attacks} attacks"
    if attacks > 1:
        return f"Under the worst of {attacks} attacks"
    spot = next((spot for spot in grid.spots if grid.attack(spot) != "no attackers"), grid.spots[0])
    return f"Under {grid.attack(spot)}"


def _first(standings: Standings, best: Standing) -> str:
    grid = standings.grid
    several = len(standings.known) > 1
    name = f"{grid.defence(best.defence)} holds best: accuracy" if several else "accuracy is"
    return f"{under(grid)}, {name} {_kept(standings, best)}."


def _kept(standings: Standings, standing: Standing) -> str:
    """What a defence keeps on average, and where least."""
    least = standing.least
    assert least is not None
    at_least = f"{least.words}{_at(standings.grid, least)}"
    if standing.mean is None:
        return f"{at_least} at the least"
    if len(standing.compared) == 1:
        return f"{standing.words}{_at(standings.grid, standing.compared[0])}"
    return f"{standing.words} on average over {len(standing.compared)} conditions, {at_least} at the least"


def _at(grid: Grid, field: Field) -> str:
    """Where and by whom, in brackets."""
    words = grid.where(field.condition)
    if len(grid.attacks) > 1 and field.worst:
        words += f"{', ' if words else ''}{grid.attack(field.worst)}" * (grid.attack(field.worst) not in words)
    return f" ({words})" if words else ""


def _last(standings: Standings, last: Standing) -> str:
    return f"{standings.grid.defence(last.defence)} holds worst: {_kept(standings, last)}."


def _survivors(standings: Standings) -> str:
    """Who survives everything, and what that means."""
    grid = standings.grid
    names = [grid.defence(each.defence) for each in standings.order if each.overall.grade == "all"]
    said = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    keeps = f"to survive is to keep {100 * KEPT:.0f}% of the best accuracy of any cell at the same privacy and setting"
    if not standings.unattacked:
        keeps += " (which may itself be under attack)"
    if all(each.overall.words == UNTRIED for each in standings.order):
        return "No attack was tried, so none was survived."
    if len(standings.known) == 1:
        return f"It {'survives' if names else 'does not survive'} everything tried; {keeps}."
    if open_ := sum(each.overall.grade == "unknown" for each in standings.order):
        keeps = f"{open_} more survive what has been run so far; {keeps}"
    number = f"{len(names)} of {len(standings.known)}" if names else f"None of the {len(standings.known)}"
    who = f" ({said})" if names else ""
    return f"{number} defences survive{'s' * (not names)} everything tried{who}; {keeps}."


def _extremes(grid: Grid) -> str:
    """The best and the worst single cell."""
    cells = [cell for spot in grid.spots for cell in spot.counted]
    best = max(cells, key=lambda each: each.accuracy or 0.0)
    worst = min(cells, key=lambda each: each.accuracy or 0.0)
    if len(cells) == 1:
        return f"One cell is known: {_cell(grid, best)}."
    return f"Best cell: {_cell(grid, best)}. Worst cell: {_cell(grid, worst)}."


def _cell(grid: Grid, cell: Cell) -> str:
    return f"{share(cell.accuracy)} ({grid.cell(cell)})"


def _completeness(standings: Standings) -> str:
    sweep, grid = standings.grid.sweep, standings.grid
    if not lacking(sweep):
        return ""
    said = [f"{progress(sweep)} are done; {lacking(sweep)}. Means are over what is done."]
    if any(0 < len(field.known) < len(field.spots) for field in grid.fields):
        said.append("Where an attack is missing, the worst of the others is given as “≤”: the truth can only be lower.")
    if len(standings.common) < len(grid.conditions) and len(standings.known) > 1:
        said.append(
            f"Defences are ranked on the {len(standings.common)} of {len(grid.conditions)} conditions known for each."
            if standings.common else "No condition is known for every defence yet, so their order means nothing."
        )  # fmt: skip
    return " ".join(said)


def _seeds(grid: Grid) -> str:
    """How much is luck."""
    sweep = grid.sweep
    tests = max((run.test_examples for run in sweep.ran), default=0)
    error = f" Accuracy is measured on {tests:,} examples held out: one standard error is at most " \
            f"{50 / tests**0.5:.2g} percentage points." if tests else ""  # fmt: skip
    if len(sweep.seeds) == 1:
        return f"One seed ({sweep.seeds[0]}): nothing here tells how much is luck.{error}"
    scatter = [spot.accuracy.deviation for spot in grid.spots if spot.accuracy and spot.accuracy.deviation is not None]
    typical = f"; ± is their standard deviation, {fmean(scatter):.3f} on average" if scatter else ""
    listed = ranges(sorted(sweep.seeds))
    return f"Every number is a mean over {len(sweep.seeds)} seeds ({listed}) unless it says otherwise{typical}.{error}"


def guarantees(sweep: Sweep) -> list[str]:
    """What is promised to each client, a sentence for every kind of promise."""
    found: dict[tuple[str, Word, str, float] | None, list[float]] = {}
    for run in sweep.ran:
        found.setdefault(run.guarantee, []).extend([] if run.upper is None else [run.upper])
    said = []
    for promise, uppers in found.items():
        cells = sum(run.guarantee == promise for run in sweep.ran)
        if promise is None:
            said.append(f"{cells:,} cell{'s' * (cells > 1)} promise{'s' * (cells == 1)} no privacy: ε = ∞.")
            continue
        unit, trust, adjacency, delta = promise
        bound = epsilon_range(uppers)
        said.append(f"ε ≤ {bound} at δ = {small(delta)} in {cells:,} cell{'s' * (cells > 1)}, certified: "
                    f"{how(trust, unit, adjacency)}.")  # fmt: skip
    if any(promise and sums_only(promise[1]) for promise in found):
        said.append(ASSUMED.replace("This guarantee", "The guarantee under secure aggregation"))
    return said


def epsilon_range(uppers: list[float]) -> str:
    """The smallest and the largest bound; the largest alone where a calibration meant them to be the same.

    >>> epsilon_range([2.0, 4.00012, float("inf")]), epsilon_range([1.99, 2.0]), epsilon_range([])
    ('2 to ∞', '2', '?')
    """
    if not uppers:
        return "?"
    low, high = min(uppers), max(uppers)
    return up(high) if low >= SAME * high else f"{up(low)} to {up(high)}"


def plus_minus(spread: Spread | None) -> str:
    """A mean and its scatter.

    >>> plus_minus(Spread(0.84, 0.011, 0.83, 0.85, 3)), plus_minus(Spread(0.84, None, 0.84, 0.84, 1)), plus_minus(None)
    ('0.840 ± 0.011', '0.840', '–')
    """
    if spread is None:
        return "–"
    return f"{spread.mean:.3f}" + (f" ± {spread.deviation:.3f}" if spread.deviation is not None else "")
