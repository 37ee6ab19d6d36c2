"""What `fedpriv certify` works on: a run's trained network, the images, and the file of what is known about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from clients.models.arrays import Floats
from clients.models.randomised import network_of
from clients.robustness.certifying import Terms, Verdict, check_inputs
from clients.training.prepared import net_of, pool_of
from fedpriv import records
from fedpriv._base.arrays import Numbers
from fedpriv._base.own_modules import look_for_modules
from fedpriv.certified import Smoothing
from fedpriv.errors import FedprivError, natural
from fedpriv.studies import file as study_file
from server.directory import STUDY, checkpoint, id_of, kept_alone, made_on, modules_of
from server.directory.checkpoint import State
from simulations.certify.images import images_in

FORMAT = 1  # of the file of verdicts
REAL = ("radius", "published", "lower", "upper")  # which infinity may be, a word in JSON


@dataclass(frozen=True, eq=False)
class Trained:
    """A run's network and the images it is asked about."""

    directory: Path  # of the run
    study: str  # its id
    network: nn.Module  # from records to logits
    round: int  # after which it was saved
    x: Floats  # the images, in the units of the study's data
    y: Numbers  # their classes
    digest: str  # of weights and images
    labels: str  # of their labels, which attacks move images away from


def load_certified(directory: Path, data: Path | None, images: int | None) -> Trained:
    """What `fedpriv certify` asks about: a run's network as saved last, and the first images held out, or `data`'s."""
    if not (directory / STUDY).is_file():
        raise FedprivError(f"{directory}: holds no run ({STUDY} is missing); give the directory that fedpriv run named")
    look_for_modules(modules_of(directory))
    study = study_file.read_study(str((directory / STUDY).absolute()))
    if data is None and (was := made_on.data_told(directory)) and was.data:
        made_on.check_same(str(directory), was, study)
    pool = pool_of(study)
    if not pool.classes:
        raise FedprivError(f"{directory}: its labels are numbers, and what is certified is a class")
    if pool.features is not None:
        raise FedprivError(
            f"{directory}: trained on features ({pool.features['kind']}): what is certified, and attacked along a "
            "gradient, is a record that the model itself sees, and it sees none"
        )
    net = net_of(replace(study, training=replace(study.training, device="cpu")), pool)  # wherever it was trained
    named = id_of(directory, study)
    state = checkpoint.load_checkpoint(directory, named, State.begun(study, net.initial()))
    if state is None:
        raise FedprivError(
            f"{directory}: no round has been saved yet: fedpriv run --resume {directory} goes on with it"
        )
    x, y = (pool.x_test, pool.y_test) if data is None else images_in(data, pool)
    if images is not None and not images <= len(x):
        raise FedprivError(f"--images must be at most {len(x)}, which is all there are, got {images}")
    digest = blake2b(state.weights.tobytes() + x.tobytes(), digest_size=8).hexdigest()
    labels = blake2b(np.ascontiguousarray(y, "<i8").tobytes(), digest_size=4).hexdigest()
    x, y = x[:images], y[:images]
    check_inputs(x)
    network = network_of(net, state.weights.astype(np.float32))
    return Trained(directory, named.hex(), network, state.round, x, y, digest, labels)


def settings_of(smoothing: Smoothing) -> dict[str, Any]:
    """A way of smoothing as plain data, for the file of verdicts: the name of its kind, and its settings."""
    assert is_dataclass(smoothing)
    return {"kind": type(smoothing).__name__, **asdict(smoothing)}


def rightly_predicted(trained: Trained, found: Sequence[Verdict]) -> list[bool]:
    """For each image of a certificate, whether its verdict predicts the label; an abstention does not."""
    return [verdict.prediction == label for verdict, label in zip(found, trained.y.tolist(), strict=True)]


@contextmanager
def resumed_file(path: Path, header: dict[str, Any], *, what: str) -> Iterator[tuple[list[bytes], records.Writer]]:
    """While it lasts, a .jsonl of verdicts or attacks for this process alone: its lines so far, and a writer of more.

    Half a line that a kill has left is dropped. `what` says what its header and its name are of.
    """
    with kept_alone(path.parent), records.Writer(path) as writer:
        first, *lines = path.read_bytes().splitlines() or [b""]
        if not first:
            writer.append(header, durable=True)
        elif first != records.record_bytes(header).strip():
            raise FedprivError(f"{path}:1: is of other {what} than its name says: remove the file")
        yield lines, writer


class Known:
    """The verdicts found so far, a line each behind a line of terms; a file for each way of asking."""

    def __init__(self, trained: Trained, terms: Terms) -> None:
        """The verdicts of a run's network under these terms, whose file in RUN/certify is named by their hash."""
        own = settings_of(terms.smoothing)
        self.header: dict[str, Any] = {
            "format": FORMAT, "kind": "certify", "study": trained.study, "round": trained.round,
            "digest": trained.digest, "smoothing": own, "draws": terms.draws, "confidence": terms.confidence,
            "by": terms.by, "seed": terms.seed,
        }  # fmt: skip
        name = blake2b(records.record_bytes(self.header), digest_size=4).hexdigest()
        folder = trained.directory / "certify"
        folder.mkdir(exist_ok=True)
        self.path = folder / f"{own['kind']}-{name}.jsonl"
        self.found: dict[int, Verdict] = {}

    @contextmanager
    def open(self) -> Iterator[records.Writer]:
        """While it lasts, the writer of the verdicts' file; those that it holds already are in `found` from then on."""
        with resumed_file(self.path, self.header, what="terms") as (lines, writer):
            for number, line in enumerate(lines, 2):
                try:
                    told = json.loads(line)
                    natural(image=told["image"])
                    self.found[told["image"]] = Verdict(**told | {name: float(told[name]) for name in REAL})
                except (KeyError, TypeError, ValueError) as error:
                    raise FedprivError(f"{self.path}:{number}: is no verdict ({error}): remove the line") from None
            yield writer

    def add(self, writer: records.Writer, verdict: Verdict) -> None:
        """Write a new verdict on an image to the open file of verdicts, and keep it in `found`."""
        writer.append(asdict(verdict))
        self.found[verdict.image] = verdict
