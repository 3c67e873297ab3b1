"""Which InferenceRuntime serves a service: by name, or the best one of the vendors that the service would take.

The order of `selector.vendor` beats priority: the first vendor that has any runtime wins, and within it the highest
priority. A tie there is a person's to break, never decided by name or age: a second runtime of the same rank must not
silently change what runs. For the same reason a selector's choice is kept while it still fits (`current`), even when a
better runtime appears later; the spec's next change chooses anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from noctaya.api.conditions import Reason
from noctaya.workers.errors import SpecProblem
from noctaya.workers.objects import InferenceRuntime


def choose(
    name: str,
    vendors: Sequence[str],
    *,
    get: Callable[[str], InferenceRuntime | None],
    of_vendor: Callable[[str], Iterable[InferenceRuntime]],
    current: str = "",
) -> InferenceRuntime:
    """The runtime for `spec.runtime` = `name` or `vendors`; `current` is what the service runs on, if it does.

    Raises:
        SpecProblem: RuntimeResolution; no such runtime, no runtime of any vendor, or several of the same rank.
    """
    if name:
        runtime = get(name)
        if runtime is None:
            raise _problem(f"InferenceRuntime {name} does not exist; create it or correct spec.runtime.name")
        return runtime
    kept = get(current) if current else None
    if kept is not None and kept.choice().vendor in vendors:
        return kept
    for vendor in vendors:
        candidates = list(of_vendor(vendor))
        if candidates:
            return _best(vendor, candidates)
    if not vendors:
        raise _problem("spec.runtime names neither a runtime nor a vendor; set spec.runtime.name")
    raise _problem(
        f"no InferenceRuntime of vendor {' or '.join(vendors)} exists; install one or set spec.runtime.name"
    )


def _best(vendor: str, candidates: list[InferenceRuntime]) -> InferenceRuntime:
    highest = max(runtime.choice().priority for runtime in candidates)
    best = [runtime for runtime in candidates if runtime.choice().priority == highest]
    if len(best) > 1:
        names = ", ".join(sorted(runtime.name for runtime in best))
        raise _problem(
            f"several InferenceRuntimes of vendor {vendor} have priority {highest}: {names}; name one in spec.runtime.name"
        )
    return best[0]


def _problem(message: str) -> SpecProblem:
    return SpecProblem(Reason.RUNTIME_RESOLUTION, message)
