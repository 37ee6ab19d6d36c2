"""Runs that are compared: what they are called, by what sets each apart from the others, and their table."""

from __future__ import annotations

from collections.abc import Sequence

from clients.data.identity import short_identity
from fedpriv.mechanisms import COSTED, MECHANISMS
from fedpriv.releases import SUMS
from server.progress.words import LETTERS, kind_alone, kind_with_settings, settings_beside, value_of
from simulations.figures.tables import Table
from simulations.report.run.facts import comparison_row
from simulations.report.run.runs import Run

BARE = ("study", "release", "mechanism", "model")  # facts of a run whose value says by itself what it is of
COLUMNS = ("mechanism", "attack", "Byzantine", "clients", "trust", "rounds")  # of the table that compares runs


def run_labels(runs: Sequence[Run]) -> list[str]:
    """The names of runs that are compared: of each what sets it apart from the others, else its directory.

    What the table beside them has a column for is in a name only where names would be the same without; settings
    that only add noise come last: most often they were found for a target ε.
    """
    facts, noise, told = list[dict[str, str]](), set[str](), set(COLUMNS)
    if len({kind_alone(run.header["mechanism"]) for run in runs}) > 1:
        told |= {name for run in runs for name in settings_beside(run.header["mechanism"])}
    for run in runs:
        header = run.header
        own = {"study": str(header["name"])} | ({"data": short_identity(header["data"])} if "data" in header else {})
        own |= {"release": kind_alone(run.released), "mechanism": kind_alone(header["mechanism"])}
        own |= {name: value_of(value) for name, value in settings_beside(header["mechanism"]).items()}
        own |= {f"release {name}": value_of(value) for name, value in settings_beside(run.released).items()}
        own |= {"aggregation": kind_alone(header["aggregation"]), "attack": kind_alone(header["attack"])}
        for of in ("attack", "aggregation"):
            own |= {f"{of} {name}": value_of(value) for name, value in settings_beside(header[of]).items()}
        own |= {"corruption": kind_with_settings(header.get("corruption")), "Byzantine": str(header["byzantine"])}
        own |= {"clients": str(header["clients"]), "model": str(header["model"])}
        own |= {"trust": str((header["release"] or {}).get("trust", "none")), "rounds": str(header["rounds"])}
        facts.append({name: value if name in BARE else f"{name} {value}" for name, value in own.items()})
        effects = dict(getattr(MECHANISMS.get(kind_alone(run.header["mechanism"])), "effects", {}))
        if (cls := SUMS.get(kind_alone(run.released))) is not None:
            effects |= {f"release {name}": way for name, way in COSTED.named(cls.kind_of_cost).effects.items()}
        noise |= {name for name, way in effects.items() if way < 0}
    names = list(dict.fromkeys(name for own in facts for name in own))
    differing = [name for name in names if len({own.get(name) for own in facts}) > 1]
    chosen = {name for name in differing if name not in told | noise and not name.startswith("attack ")}
    for name in sorted(differing, key=noise.__contains__):
        more = chosen | {name}
        if len({tuple(map(own.get, more)) for own in facts}) > len({tuple(map(own.get, chosen)) for own in facts}):
            chosen = more
    found = [", ".join(own[name] for name in names if name in chosen and name in own) for own in facts]
    return found if len(set(found)) == len(runs) and all(found) else [str(run.directory) for run in runs]


def side_by_side(runs: Sequence[Run]) -> Table:
    """Several runs as a table of a paper, or of a terminal: a row each, under its letter."""
    head = ["", *(name for name, _ in comparison_row(runs[0]))]
    return head, [
        [f"{letter}  {name}", *(text for _, text in comparison_row(run))]
        for letter, name, run in zip(LETTERS, run_labels(runs), runs, strict=False)
    ]
