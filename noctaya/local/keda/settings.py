"""Settings of the KEDA stand-in. The defaults are those of KEDA 2.20 and of Kubernetes; tests shorten what is slow."""

from noctaya.settings import SettingsGroup


class KedaSettings(SettingsGroup):
    """Times and rates of the stand-in (keda.md, sections 2 to 4)."""

    hpa_sync_seconds: float = 15.0
    """How often each HPA is looked at; the horizontal pod autoscaler's own period."""
    metrics_deadline_seconds: float = 60.0
    """When a metric query of the HPA path gives up: the API server's own limit for an aggregated request."""
    status_writes_per_second: float = 20.0
    """KEDA's client sends at most so many status writes a second, first come, first served (behaviour Q1)."""
    status_writes_burst: int = 30
    """So many may go at once after a quiet time."""
    reconciles: int = 5
    """ScaledObjects reconciled in parallel; one that hangs in GetMetricSpec occupies one of them (L8)."""
    retry_first_seconds: float = 0.005
    """Delay after a reconcile's first failure; each further one doubles it (L2)."""
    retry_most_seconds: float = 1000.0
    """Where that doubling ends."""
    resolve_apart_seconds: float = 30.0
    """A name is resolved again only after a connection was lost, and not sooner than this after the last time (C2)."""
    reconnect_first_seconds: float = 1.0
    """Delay before a broken connection is dialled again; grows by 1.6 each time, plus or minus 20 % (C2)."""
    reconnect_most_seconds: float = 120.0
    """Where that growth ends."""
