"""Why demand cannot be trusted to fall, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from noctaya.kube.clock import boottime
from noctaya.workers.intake import ALERT_SECONDS, Intake
from noctaya.workers.problems import Problem


def demand_problems(intake: Intake) -> Iterator[Problem]:
    """What is wrong at this instant."""
    now = boottime()
    if shadowed := intake.book.shadowed(now):
        yield Problem(
            "GatewayNameTaken",
            f"more than one gateway process calls itself {', '.join(shadowed)}: only the newest is counted, so nothing is "
            "scaled down. Give each its pod's name (NOCTAYA_POD__NAME, NOCTAYA_POD__NAMESPACE), as deploy/kustomize does.",
        )
    if intake.unknown_since is not None and now - intake.unknown_since > ALERT_SECONDS:
        silent = intake.book.silent_gateways(now)
        reason = (
            "the API server does not show the gateways' pods."
            if silent is None
            else f"gateway {', '.join(silent)} runs and does not report."
        )
        yield Problem("DemandUnknown", f"demand is not known for 5 min: {reason}")
