"""A study's rule where a trusted server adds the noise, and where it does not: what goes with which, refused early."""

from __future__ import annotations

from typing import Any

from fedpriv.errors import FedprivError
from fedpriv.estimation.curators import Around
from fedpriv.studies.kinds import CURATORS
from fedpriv.studies.tables import Privacy, Server
from fedpriv.trust import curated


def settled_rule(
    kind: str, settings: dict[str, Any], around: Around, privacy: Privacy, server: Server
) -> dict[str, Any]:
    """The settings of a study's rule; of a curator with what other tables say of it; refused under another trust."""
    if not curated(privacy.trust):
        if kind in CURATORS:
            raise FedprivError(
                f"aggregation: {kind} adds noise to messages that the server has read: privacy.trust must be "
                f"'central', got '{privacy.trust}'"
            )
        return settings
    if kind not in CURATORS or "before" in settings:
        raise FedprivError(
            "aggregation: under privacy.trust = 'central' it must be a curator with no before: "
            f"{', '.join(CURATORS)}; got {kind}"
        )
    _check_around(around, privacy, server, adapts="count_noise" in settings)
    found: dict[str, Any] = CURATORS[kind].settled(settings, around)
    return found


def _check_around(around: Around, privacy: Privacy, server: Server, adapts: bool) -> None:
    """Refuse what of a study's other tables does not go with a curator, `adapts` being whether its clip norm does."""
    if not privacy.is_plain or (around.clip is None and not adapts):
        raise FedprivError(
            "privacy.mechanism must be Plain with a clip under trust 'central': the noise is the server's"
        )
    if server.fewest is not None:
        raise FedprivError(
            "server.fewest is none of trust 'central': who does not answer counts as one that sends 0, and no "
            "round is skipped for it, as that would show"
        )
    if server.decoder == "vote":
        raise FedprivError("server.decoder must be 'mean', or left out, under trust 'central': a curator gives means")
    if privacy.noise != "seeded":
        raise FedprivError("privacy: trust 'central' knows noise = 'seeded' (a simulation's)")
