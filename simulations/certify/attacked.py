"""Accuracy under attack, kept beside a run's verdicts: what was found, and the table next to certified accuracy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from clients.robustness.attacked import STEPS, WORST, Attacked, accuracies, attacked
from clients.robustness.certifying import Terms, Verdict
from fedpriv import records
from fedpriv._base.files import replaced
from fedpriv.certified.smoothing import in_linf
from fedpriv.errors import FedprivError, positive
from server.directory import kept
from server.progress.live_line import LiveLine
from simulations.certify.run import Trained
from simulations.report.run.facts import aligned

Rows = list[dict[str, Any]]

FORMAT = 1


def sizes_of(text: str) -> list[float]:
    """The sizes in a list such as "0.05,0.1", in their order.

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
    """Every image under every attack of those sizes; what the file beside the verdicts knows is not done again."""
    line, found = LiveLine(quiet), list[Attacked]()
    try:
        for size in sizes:
            header = {"format": FORMAT, "kind": "attacked", "of": verdicts.name, "labels": trained.labels,
                      "size": size, "steps": STEPS}  # fmt: skip
            name = f"{verdicts.stem}-attacked-{size!r}-{trained.labels}.jsonl"
            with _open(verdicts.with_name(name), header) as (known, writer):
                missing = [image for image in range(len(trained.x)) if image not in known]
                new = attacked(network, trained.x, trained.y, terms, size, missing, workers)
                for done, each in enumerate(new, 1):
                    writer.append({"image": each[0].image, "found": [asdict(one) for one in each]})
                    known[each[0].image] = each
                    line.show(f"attacks of {size:g}", done / len(missing), [f"{len(known):,} of {len(trained.x):,}"])
                found += [one for image in range(len(trained.x)) for one in known[image]]
    finally:
        line.clear()
    return found


@contextmanager
def _open(path: Path, header: dict[str, Any]) -> Iterator[tuple[dict[int, list[Attacked]], records.Writer]]:
    """What is known of each image, and the file to go on with."""
    with kept(path.parent), records.Writer(path) as writer:
        first, *others = path.read_bytes().splitlines() or [b""]
        if not first:
            writer.append(header, durable=True)
        elif first != records.written(header).strip():
            raise FedprivError(f"{path}:1: is of other attacks than its name says: remove the file")
        try:
            lines = [json.loads(line) for line in others]
            known = {line["image"]: [Attacked(**one) for one in line["found"]] for line in lines}
        except (KeyError, TypeError, ValueError) as error:
            raise FedprivError(f"{path}: holds a line that is none of its own ({error}): remove the file") from None
        yield known, writer


def rows(
    trained: Trained, terms: Terms, verdicts: Sequence[Verdict], found: Sequence[Attacked]
) -> list[dict[str, Any]]:
    """For each size in ℓ∞: certified accuracy, and accuracy under each attack and under the worst for each image."""
    sizes = sorted({each.size for each in found})
    return [_row(trained, terms, verdicts, [each for each in found if each.size == size], size) for size in sizes]


def _row(
    trained: Trained, terms: Terms, verdicts: Sequence[Verdict], found: Sequence[Attacked], size: float
) -> dict[str, Any]:
    norm, dimension = terms.smoothing.norm, trained.x[0].size
    reach = [in_linf(verdict.radius, norm, dimension) for verdict in verdicts]
    right = [verdict.prediction == label for verdict, label in zip(verdicts, trained.y.tolist(), strict=True)]
    under = {
        name: {"accuracy": own, "not_surely_wrong": other}
        for name, (own, other) in accuracies(found, trained.y).items()
    }
    certified = sum(ok and own >= size for ok, own in zip(right, reach, strict=True)) / len(verdicts)
    return {"size": size, "certified": certified, "all": under.pop(WORST), "attacks": under}


def keep(report: dict[str, Any], file: Path) -> None:
    """The summary beside the verdicts, which reports read; what a summary of before says of attacks stays."""
    if "attacked" not in report and file.is_file():
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            before = {}
        if before.get("images") == report["images"] and "attacked" in before:
            report = report | {"attacked": before["attacked"]}
    replaced(file, records.written(report), mode=0o644)


def table(attacked: Sequence[dict[str, Any]]) -> str:
    """The same for people."""
    names = list(attacked[0]["attacks"])
    head = ["  ℓ∞ size", "certified", *names, "the worst of them"]
    lines = [
        [f"  {row['size']:g}", f"{row['certified']:.1%}",
         *(f"{row['attacks'][name]['accuracy']:.1%}" for name in names), f"{row['all']['accuracy']:.1%}"]
        for row in attacked
    ]  # fmt: skip
    return "accuracy under attack, by most votes; certified: no abstention counts\n" + aligned(head, lines)
