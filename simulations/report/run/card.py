"""A run as a notebook shows it: what it was, what it learnt, what it gave away, where it lies."""

from __future__ import annotations

from html import escape

from fedpriv._base.spelling import rounded_down, rounded_up, short_number
from fedpriv.given import MODULE, bare_name
from server.progress.words import (
    bytes_words,
    kind_alone,
    measured_words,
    mu_words,
    part_of_whole,
    share_words,
    unit_and_trust,
)
from simulations.report.run.runs import Run

Rows = list[tuple[str, str]]


def card_rows(run: Run) -> Rows:
    """A run in a few rows of words, for its card in a notebook."""
    header, cost = run.header, run.epsilon if run.private else None
    attack = kind_alone(header["attack"])
    if attack.startswith(f"{MODULE}:"):  # an object of Python: by its own name, without the digest
        attack = bare_name(attack).rpartition("_")[0]
    bad = f", {header['byzantine']:,} Byzantine ({attack})" if header["byzantine"] else ""
    name, measured = measured_words(run.measured)
    rows = [
        ("what", f"{header['model']} of {header['dimension']:,} weights, {header['clients']:,} clients{bad}"),
        (name, f"{measured} of {header['test_examples']:,} records held out"),
    ]
    if (success := run.last("backdoor")) is not None:
        rows.append(("backdoor", f"{share_words(success)} of the records with its trigger are taken for its target"))
    if not run.private:
        rows.append(("privacy", "none: updates were sent as they are"))
    elif cost is None:
        rows.append(("privacy", "nothing was costed"))
    else:
        sides = f"at most {rounded_up(cost['upper'])}, at least {rounded_down(cost['lower'])}"
        rows.append((f"ε at δ = {short_number(header['delta'])}", sides))
        rows += [("μ", mu_words(own).removeprefix("μ ")) for own in [run.mu] if own]
        release = header["release"]
        rows.append(("of", unit_and_trust(release["trust"], release["unit"], release["adjacency"])))
    sent = f"{bytes_words(run.client_bytes)} a client a round"
    if run.bytes_up is not None:
        sent += f", {bytes_words(run.bytes_up)} in all"
    whole = part_of_whole(4 * header["dimension"], run.client_bytes)
    return [*rows, ("sent", f"{sent}; {whole} float32"), ("where", str(run.directory))]


def run_card(run: Run) -> str:
    """The HTML of a run's card, in whatever colours the notebook has, narrow or wide."""
    header = run.header
    state = f"{run.ended}, {len(run.rounds):,} of {header['rounds']:,} rounds" + (
        "; attack not tried" * bool(run.not_tried)
    )
    cell = "text-align:left;vertical-align:top;padding:.15em 1em .15em 0;background:none;border:0"
    named = f"{cell};font-weight:500;opacity:.7;white-space:nowrap"
    rows = "".join(
        f'<tr style="background:none"><th style="{named}">{escape(name)}</th>'
        f'<td style="{cell};overflow-wrap:anywhere">{escape(text)}</td></tr>'
        for name, text in card_rows(run)
    )
    return (
        '<div style="display:inline-block;max-width:46rem;border:1px solid #8886;border-radius:.5rem;'
        'padding:.7rem 1rem;font:14px/1.5 system-ui,sans-serif">'
        f'<div style="margin-bottom:.4rem"><b style="font-size:1.15em">{escape(str(header["name"]))}</b> '
        f'<span style="opacity:.7">{escape(state)}</span></div>'
        f'<table style="border-collapse:collapse;margin:0;font-variant-numeric:tabular-nums">{rows}</table></div>'
    )
