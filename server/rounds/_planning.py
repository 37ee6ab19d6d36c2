"""A study made ready to be run: its data and its model beside the plan, and everything refused that can be before."""

from __future__ import annotations

from clients.training.byzantine import check_records
from clients.training.corrupting import check_corruption
from clients.training.prepared import Prepared, division_of, net_of, pool_of
from clients.training.releasing import check_release
from clients.training.root import check_root
from clients.training.stobatch_checks import settled_sizes
from fedpriv import wire
from fedpriv.errors import FedprivError
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.directions import rehearse_rule
from fedpriv.studies.plan import Plan
from fedpriv.studies.study import Study
from fedpriv.tolerance import Vote


def _check_tolerance(plan: Plan) -> None:
    """Refuse a study that wants the vote's tolerance of attackers, but whose votes are too many to be counted."""
    if plan.study.server.tolerance:
        try:
            Vote(mechanism=plan.mechanism, honest=plan.study.clients.count, mean=plan.mechanism.peak)
        except FedprivError as error:
            raise FedprivError(f"server.tolerance: {error}") from None


def planned(study: Study) -> Prepared:
    """A study made ready for its run, a free setting calibrated: everything that can be refused is refused here."""
    pool = pool_of(study)
    if study.run.stop is not None and not len(pool.y_test):
        raise FedprivError("run.stop goes by the accuracy on held-out records, and the data have none: data.held_out")
    net, division = net_of(study, pool), division_of(study, pool)
    study = settled_sizes(study, pool, net, division)
    check_release(study, net, division)
    check_records(study, pool)
    check_corruption(study, pool)
    check_root(study, pool)
    plan = Plan.of(calibrated_study(study, net.dimension), net.dimension)
    rehearse_rule(plan.study, net.dimension)
    _check_tolerance(plan)
    return Prepared(plan, pool, net, division)


def size_of(plan: Plan) -> wire.Size:
    """How many bytes one client, alone, would send in a round, as far as is known before: for forecast and records."""
    settings = 0 if plan.private_sum is None else len(plan.private_sum.adapts)
    boxed = plan.study.privacy.norm == "coordinates"
    return wire.client_bytes(plan.mechanism, plan.dimension, plan.study.masked, settings, boxed=boxed)
