"""A stand-in for KEDA 2.20 on the embedded cluster: external-push triggers, the scale executor, and the HPA's 1..N.

It behaves as KEDA's operator, its metrics adapter and the horizontal pod autoscaler do towards an ExternalScaler and towards
a controller that watches ScaledObjects: the same calls in the same order at the same times, the same status, the same
traps. It must never be kinder than KEDA: a scaler that works here only because a deadline was added, a `false` was obeyed or
an error was taken for zero would fail on a real cluster.

Left out, each visibly:
- KEDA 2.17 to 2.19 (profiles P17, P18, P19): only 2.20 is stood in for.
- Other trigger types, targets other than Deployments, `fallback` (E4, E12, E14), `scalingModifiers`, TLS and
  `authenticationRef`, metadata from the environment (`…FromEnv`): refused with Ready=False and a message.
- ScaledJob (S9), and a loop start that cannot build its scalers (S10), which needs trigger types that we refuse.
- Admission webhooks: the CRD's rules refuse part of what they would, the rest is refused with Ready=False.
- HPA tolerances in `behavior`, and other than external metrics.
"""

from noctaya.local.keda.crd import crds
from noctaya.local.keda.operator import KedaStandIn
from noctaya.local.keda.settings import KedaSettings

__all__ = ["KedaSettings", "KedaStandIn", "crds"]
