"""`fedpriv certify`: how far a trained network's inputs may be moved before a prediction can change."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fedpriv.errors import FedprivError, one_of, positive, whole
from fedpriv.releases.kept import mechanism_of
from fedpriv.studies import file as study_file
from server.directory import STUDY
from simulations.cli._command import JSON, QUIET, Commands, add_command, flag, option
from simulations.cli._words import as_real, as_whole, show_found
from simulations.flower.surroundings import usable_cores

if TYPE_CHECKING:
    from torch import nn

    from clients.robustness.certifying import Terms, Verdict
    from fedpriv.certified import Smoothing
    from simulations.certify.run import Trained

HELP = """\
Noise is added to every input, M times; the prediction is the class that most of the noised inputs are taken for. Where
the draws prove that class to be well ahead, no move of the input within the radius changes it; else it abstains. Each
verdict holds with the confidence given, over the draws. What was found is kept in RUN/certify, so that the same command
goes on where it was interrupted, and more images cost only those that are new.
  gaussian   radii in ℓ2 (Cohen, Rosenfeld, Kolter 2019); noise is the standard deviation
  laplace    radii in ℓ∞, by the accountant's curve of Laplace noise on all coordinates; noise is the scale b.
             Beside it what PixelDP and StoBatch print for noise on inputs: b·ε_r/d, with Hoeffding's bound
  stobatch   of a run that trained with StoBatch or AdLm, whose default it is: radii in ℓ∞, by the law of its training's
             noise, b on the input and 2b on the first layer, both divided by --psi. Beside it what its paper prints
Inputs and radii are in the units of the study's data, which must be in [−1, 1].

examples:
  fedpriv certify runs/digits
  fedpriv certify runs/digits --images 200 --draws 500 --json
  fedpriv certify runs/fashion --law laplace --noise 0.5 --confidence 0.99
  fedpriv certify runs/stobatch --psi 4
  fedpriv certify runs/digits --attack 0.05,0.1,0.2
"""
LAWS = ("gaussian", "laplace", "stobatch")
NOISE = 0.25  # how large noise is unless said, in the units of the data
PSI = 2.0  # ψ, what --law stobatch divides the noise of the training by unless said


OPTIONS = (
    option("run_directory", "RUN", "the directory that fedpriv run named"),
    option("--data", "DIR", "images of your own: x.npy and y.npy, or idx files (default: those held out)"),
    option("--images", "N", "the first N of them (default all)", type=as_whole),
    option("--draws", "M", "noised copies of each image (default 2000)", type=as_whole, default=2000),
    option("--confidence", "C", "of each verdict (default 0.999)", type=as_real, default=0.999),
    option("--by", "votes|scores", "whether votes are counted, or scores averaged", default="votes"),
    option("--law", "gaussian|laplace|stobatch", "of the noise (default gaussian, or the run's own)"),
    option("--noise", "S", f"its size (default {NOISE}; of stobatch the run's)", type=as_real),
    option("--psi", "P", f"of stobatch: what its noise is divided by (default {PSI:g})", type=as_real),
    option("--attack", "SIZES", "also accuracy under attack, of these sizes in ℓ∞, such as 0.05,0.1,0.2"),
    option("--seed", "N", "of the draws (default 1)", type=as_whole, default=1),
    option("--workers", "N", "threads (default: one a core); any number finds the same", type=as_whole),
    flag("--no-figure", "the table alone"),
    QUIET,
    JSON,
)


def add_to(commands: Commands) -> None:
    """Add `fedpriv certify` to the command's parser."""
    about = "Certified predictions of a run's network: a radius and a confidence for every input, or none."
    add_command(commands, "certify", run, OPTIONS, description=about, epilog=HELP)


def run(options: argparse.Namespace) -> None:
    """Run `fedpriv certify`: find verdicts not known yet, attack if asked, print the table and draw the curves."""
    if options.law is not None:
        one_of(LAWS, law=options.law)
    for check, names in ((whole, ("images", "workers")), (positive, ("noise", "psi"))):
        for name in names:
            if getattr(options, name) is not None:
                check(**{name: getattr(options, name)})
    from clients.models.gradients import torch_on_one_thread
    from clients.robustness.certifying import Terms
    from simulations.certify import attacked as attacked_accuracy
    from simulations.certify.accuracy import certified_picture, certified_summary, certified_table
    from simulations.certify.run import load_certified

    torch_on_one_thread()
    sizes = attacked_accuracy.sizes_of(options.attack) if options.attack else []
    trained = load_certified(Path(options.run_directory), options.data and Path(options.data), options.images)
    network, smoothing = _smoothed(options, trained)
    terms = Terms(
        smoothing=smoothing, draws=options.draws, confidence=options.confidence, by=options.by, seed=options.seed
    )  # fmt: skip
    found, path, seconds = _all(trained, network, terms, options)
    report = certified_summary(trained, terms, found) | {"file": str(path), "seconds": seconds}
    if sizes:
        workers = options.workers or usable_cores()
        under = attacked_accuracy.found_in(trained, network, terms, sizes, path, workers, quiet=options.quiet)
        report["attacked"] = attacked_accuracy.attacked_rows(trained, terms, found, under)
    if not options.no_figure:
        report["figure"] = str(
            certified_picture(trained, terms, found, path.with_suffix(".png"), report.get("attacked", []))
        )
    attacked_accuracy.keep_summary(report, path.with_suffix(".json"))
    words = certified_table(report) + (f"\n\n{attacked_accuracy.attacked_table(report['attacked'])}" if sizes else "")
    show_found(report, words, options.json)


def _smoothed(options: argparse.Namespace, trained: Trained) -> tuple[nn.Module, Smoothing]:
    """A run's network under the noise that options of `fedpriv certify` ask for, and what that noise proves."""
    from clients.models.randomised import as_trained, noised_network
    from clients.robustness.stobatch import smoothed_network
    from fedpriv.certified import GaussianSmoothing, LaplaceSmoothing

    kept, dimension = kept_noise(trained.directory), trained.x[0].size
    own = as_trained(trained.network, trained.x[0].shape)
    if own is not None and options.law is options.noise is options.psi is None:
        return own
    if kept is not None and options.law is None and options.noise is not None:
        raise FedprivError("--noise: this run's own law is stobatch, whose noise is the training's: give --law too")
    law = options.law or ("gaussian" if kept is None else "stobatch")
    if law != "stobatch":
        if options.psi is not None:
            raise FedprivError(f"--psi divides the noise of --law stobatch, not that of {law}")
        noise = NOISE if options.noise is None else options.noise
        laplace = LaplaceSmoothing(noise=noise, dimension=dimension)
        kind = GaussianSmoothing(noise=noise) if law == "gaussian" else laplace
        return noised_network(trained.network, kind), kind
    if kept is None or options.noise is not None:
        raise FedprivError(
            f"{trained.directory}: --law stobatch takes the noise that a run trained with: of a run with a "
            "privacy.release of StoBatch or AdLm, without --noise"
        )
    return smoothed_network(trained.network, trained.x[0].shape, kept, PSI if options.psi is None else options.psi)


def kept_noise(directory: Path) -> float | None:
    """The scale of StoBatch's or AdLm's noise on the inputs that a run trained with; None of other runs."""
    kept = study_file.read_study(str((directory / STUDY).absolute())).privacy.kept
    return None if kept is None else mechanism_of(kept).noise


def _all(
    trained: Trained, network: nn.Module, terms: Terms, options: argparse.Namespace
) -> tuple[list[Verdict], Path, float]:
    """A verdict on every image of a run, new ones worked out; the file they are in, and the seconds it took."""
    from clients.robustness.certifying import verdicts_of
    from server.progress.live_line import LiveLine
    from simulations.certify.run import Known

    known, line, count = Known(trained, terms), LiveLine(options.quiet), len(trained.x)
    workers = options.workers or usable_cores()
    begun = time.perf_counter()
    try:
        with known.open() as writer:
            missing = [image for image in range(count) if image not in known.found]
            line.begin(f"{count - len(missing):,} of {count:,} images", 1 - len(missing) / count, [])
            for done, verdict in enumerate(verdicts_of(network, trained.x, terms, missing, workers), 1):
                known.add(writer, verdict)
                left = (time.perf_counter() - begun) / done * (len(missing) - done)
                at = count - len(missing) + done
                line.show(f"{at:,} of {count:,} images", at / count, [f"{left:.0f} s left"])
    except KeyboardInterrupt:
        raise KeyboardInterrupt("what was found is kept: the same command goes on") from None
    finally:
        line.clear()
    return [known.found[image] for image in range(count)], known.path, time.perf_counter() - begun
