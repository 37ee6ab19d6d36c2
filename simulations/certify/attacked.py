"""Accuracy under attack, kept beside a run's verdicts: what was found, and the table next to certified accuracy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from clients.robustness.attacked import STEPS, WORST, Attacked, accuracies_under, attacked_images
from clients.robustness.certifying import Terms, Verdict
from fedpriv import records
from fedpriv._base.files import replace_file
from fedpriv.certified.smoothing import in_linf
from fedpriv.errors import FedprivError, positive
from server.progress.live_line import LiveLine
from simulations.certify.run import Trained, resumed_file, rightly_predicted
from simulations.figures.curves import COLOURS
from simulations.report.run.facts import aligned_table

if TYPE_CHECKING:
    from simulations.figures.panels import Panel

FORMAT = 1  # of the file of attacked images


def sizes_of(text: str) -> list[float]:
    """The sizes that --attack was given, such as "0.05,0.1", as numbers in rising order.

    >>> sizes_of("0.1,0.05")
    [0.05, 0.1]
    """
    try:
        sizes = sorted({float(each) for each in text.split(",")})
    except ValueError:
        raise FedprivError(f"--attack must be sizes such as 0.05,0.1, got {text!r}") from None
    for size in sizes:
        positive(attack=size)
    return sizes


def found_in(
    trained: Trained, network: nn.Module, terms: Terms, sizes: Sequence[float], verdicts: Path, workers: int,
    *, quiet: bool,
) -> list[Attacked]:  # fmt: skip
    """Attack every image of a run's network at these sizes: each one's outcome, kept in files beside the verdicts."""
    line, found = LiveLine(quiet), list[Attacked]()
    try:
        for size in sizes:
            header = {"format": FORMAT, "kind": "attacked", "of": verdicts.name, "labels": trained.labels,
                      "size": size, "steps": STEPS}  # fmt: skip
            name = f"{verdicts.stem}-attacked-{size!r}-{trained.labels}.jsonl"
            path, known = verdicts.with_name(name), dict[int, list[Attacked]]()  # by image
            with resumed_file(path, header, what="attacks") as (lines, writer):
                try:
                    for told in map(json.loads, lines):
                        known[told["image"]] = [Attacked(**one) for one in told["found"]]
                except (KeyError, TypeError, ValueError) as error:
                    raise FedprivError(
                        f"{path}: holds a line that is none of its own ({error}): remove the file"
                    ) from None
                missing = [image for image in range(len(trained.x)) if image not in known]
                new = attacked_images(network, trained.x, trained.y, terms, size, missing, workers)
                for done, each in enumerate(new, 1):
                    writer.append({"image": each[0].image, "found": [asdict(one) for one in each]})
                    known[each[0].image] = each
                    line.show(f"attacks of {size:g}", done / len(missing), [f"{len(known):,} of {len(trained.x):,}"])
                found += [one for image in range(len(trained.x)) for one in known[image]]
    finally:
        line.clear()
    return found


def attacked_rows(
    trained: Trained, terms: Terms, verdicts: Sequence[Verdict], found: Sequence[Attacked]
) -> list[dict[str, Any]]:
    """For each ℓ∞ size: certified accuracy, accuracy under each attack, and under the worst for each image."""
    right = rightly_predicted(trained, verdicts)
    reach = [in_linf(verdict.radius, terms.smoothing.norm, trained.x[0].size) for verdict in verdicts]
    table = []
    for size in sorted({each.size for each in found}):
        shares = accuracies_under([each for each in found if each.size == size], trained.y)
        under = {name: {"accuracy": own, "not_surely_wrong": other} for name, (own, other) in shares.items()}
        certified = sum(ok and own >= size for ok, own in zip(right, reach, strict=True)) / len(verdicts)
        table.append({"size": size, "certified": certified, "all": under.pop(WORST), "attacks": under})
    return table


def keep_summary(report: dict[str, Any], file: Path) -> None:
    """Write a certificate's summary as JSON beside its verdicts, for reports; earlier attacks in it stay."""
    if "attacked" not in report and file.is_file():
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            before = {}
        if before.get("images") == report["images"] and "attacked" in before:
            report = report | {"attacked": before["attacked"]}
    replace_file(file, records.record_bytes(report), mode=0o644)


def panel_of(attacked: Sequence[dict[str, Any]], *, certified: float, by_most: float) -> Panel:
    """The panel of the certificate's picture on attacks: accuracy by their size, certified accuracy below it.

    Without an attack it is `certified`, and by most draws `by_most`.
    """
    from simulations.figures.panels import DASHED, Line, Panel  # matplotlib takes a while

    sizes = np.array([0.0, *(row["size"] for row in attacked)])
    curves = {name: [row["attacks"][name]["accuracy"] for row in attacked] for name in attacked[0]["attacks"]}
    surely = np.array([certified, *(row["certified"] for row in attacked)])
    lines = [Line("certified", sizes, surely, COLOURS[0], DASHED)]
    for (name, shares), colour in zip(curves.items(), COLOURS[1:], strict=True):
        lines.append(Line(name, sizes, np.array([by_most, *shares]), colour))
    x = "size in ℓ∞, in units of the inputs"
    return Panel(title="Accuracy under attack", x=x, y="share of images", lines=lines)


def attacked_table(attacked: Sequence[dict[str, Any]]) -> str:
    """Accuracy under attack for `fedpriv certify` on a terminal, a row a size, a column an attack."""
    names = list(attacked[0]["attacks"])
    head = ["  ℓ∞ size", "certified", *names, "the worst of them"]
    lines = [
        [f"  {row['size']:g}", f"{row['certified']:.1%}",
         *(f"{row['attacks'][name]['accuracy']:.1%}" for name in names), f"{row['all']['accuracy']:.1%}"]
        for row in attacked
    ]  # fmt: skip
    return "accuracy under attack, by most votes; certified: no abstention counts\n" + aligned_table(head, lines)
