"""Who may act: the Lease that the active worker holds, kept so that two workers never believe they hold it at once.

`tenure.py` decides (no clock, no socket), `renewal.py` carries the decisions out. `planner.py` is what the leader does with
it: who is fenced, and which pod should own each shard (`assignment.py`), written into the ShardMap; `leading.py` carries that
out. Nothing in this package may stand on a request's path, and nothing here trusts another machine's clock.
"""

from noctaya.leader.errors import TenureRefused
from noctaya.leader.renewal import Renewal
from noctaya.leader.tenure import Identity, Standing, Tenure, Timing

__all__ = ["Identity", "Renewal", "Standing", "Tenure", "TenureRefused", "Timing"]
