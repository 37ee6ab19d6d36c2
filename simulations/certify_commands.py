"""`fedpriv certify`: how far a trained network's inputs may be moved before a prediction can change."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpriv.errors import one_of, positive, whole
from simulations.account_commands import as_real, as_whole, print_json

if TYPE_CHECKING:
    from clients.certifying import Terms, Verdict
    from simulations.certified_run import Trained

HELP = """\
Noise is added to every input, M times; the prediction is the class that most of the noised inputs are taken for. Where
the draws prove that class to be well ahead, no move of the input within the radius changes it; else it abstains. Each
verdict holds with the confidence given, over the draws. What was found is kept in RUN/certify, so that the same command
goes on where it was interrupted, and more images cost only those that are new.
  gaussian   radii in ℓ2 (Cohen, Rosenfeld, Kolter 2019); noise is the standard deviation
  laplace    radii in ℓ∞, by the accountant's curve of Laplace noise on all coordinates; noise is the scale b.
             Beside it what PixelDP and StoBatch print for noise on inputs: b·ε_r/d, with Hoeffding's bound
Inputs and radii are in the units of the study's data, which must be in [−1, 1].

examples:
  fedpriv certify runs/digits
  fedpriv certify runs/digits --images 200 --draws 500 --json
  fedpriv certify runs/fashion --law laplace --noise 0.5 --confidence 0.99
"""
LAWS = ("gaussian", "laplace")


def add_to(commands: Any) -> None:
    """Add the command to a parser's."""
    command = commands.add_parser(
        "certify", help="how far inputs may be moved before a run's predictions change", epilog=HELP,
        description="Certified predictions of a run's network: a radius and a confidence for every input, or none.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = command.add_argument
    add("run_directory", metavar="RUN", help="the directory that fedpriv run named")
    add("--data", metavar="DIR", help="images of your own: x.npy and y.npy, or idx files (default: those held out)")
    add("--images", type=as_whole, metavar="N", help="the first N of them (default all)")
    add("--draws", type=as_whole, default=2000, metavar="M", help="noised copies of each image (default 2000)")
    add("--confidence", type=as_real, default=0.999, metavar="C", help="of each verdict (default 0.999)")
    add("--law", default="gaussian", metavar="gaussian|laplace", help="of the noise (default gaussian)")
    add("--noise", type=as_real, default=0.25, metavar="S", help="its size (default 0.25)")
    add("--seed", type=as_whole, default=1, metavar="N", help="of the draws (default 1)")
    add("--workers", type=as_whole, metavar="N", help="threads (default: one a core); any number finds the same")
    add("--no-figure", action="store_true", help="the table alone")
    add("--quiet", action="store_true", help="no progress on standard error")
    add("--json", action="store_true", help="one JSON object on standard output")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Certify what is not known yet; print the table, draw the curves."""
    one_of(LAWS, law=options.law)
    positive(noise=options.noise)
    whole(draws=options.draws)
    for name in ("images", "workers"):
        if getattr(options, name) is not None:
            whole(**{name: getattr(options, name)})
    from clients.gradients import one_thread
    from simulations.certified_accuracy import drawn, summary, table
    from simulations.certified_run import load

    one_thread()
    trained = load(Path(options.run_directory), options.data and Path(options.data), options.images)
    terms = _terms(options, trained)
    found, path, seconds = _all(trained, terms, options)
    report = summary(trained, terms, found) | {"file": str(path), "seconds": seconds}
    if not options.no_figure:
        report["figure"] = str(drawn(trained, terms, found, path.with_suffix(".png")))
    if options.json:
        print_json(report)
    else:
        print(table(report))


def _terms(options: argparse.Namespace, trained: Trained) -> Terms:
    from clients.certifying import Terms
    from fedpriv.certified import GaussianSmoothing, LaplaceSmoothing

    smoothing: GaussianSmoothing | LaplaceSmoothing = GaussianSmoothing(noise=options.noise)
    if options.law == "laplace":
        smoothing = LaplaceSmoothing(noise=options.noise, dimension=trained.x[0].size)
    return Terms(smoothing=smoothing, draws=options.draws, confidence=options.confidence, seed=options.seed)


def _all(trained: Trained, terms: Terms, options: argparse.Namespace) -> tuple[list[Verdict], Path, float]:
    """A verdict on every image, and how long the new ones took."""
    from clients.certifying import verdicts
    from clients.randomised import noised
    from server.live_line import LiveLine
    from simulations.certified_run import Known

    known, line, count = Known(trained, terms), LiveLine(options.quiet), len(trained.x)
    workers = options.workers or len(os.sched_getaffinity(0))
    begun = time.perf_counter()
    try:
        with known.open() as writer:
            missing = [image for image in range(count) if image not in known.found]
            network = noised(trained.network, terms.smoothing)  # type: ignore[arg-type]
            line.begin(f"{count - len(missing):,} of {count:,} images", 1 - len(missing) / count, [])
            for done, verdict in enumerate(verdicts(network, trained.x, terms, missing, workers), 1):
                known.add(writer, verdict)
                left = (time.perf_counter() - begun) / done * (len(missing) - done)
                at = count - len(missing) + done
                line.show(f"{at:,} of {count:,} images", at / count, [f"{left:.0f} s left"])
    except KeyboardInterrupt:
        raise KeyboardInterrupt("what was found is kept: the same command goes on") from None
    finally:
        line.clear()
    return [known.found[image] for image in range(count)], known.path, time.perf_counter() - begun
