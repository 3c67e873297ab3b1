"""Who may act: the Lease that the active worker holds, kept so that two workers never believe they hold it at once.

`tenure.py` decides (no clock, no socket), `renewal.py` carries the decisions out. Membership, assignment and the shard map
will live here too. Nothing in this package may stand on a request's path, and nothing here trusts another machine's clock.
"""

from noctaya.leader.errors import TenureRefused
from noctaya.leader.renewal import Renewal
from noctaya.leader.tenure import Identity, Standing, Tenure, Timing

__all__ = ["Identity", "Renewal", "Standing", "Tenure", "TenureRefused", "Timing"]
