"""How much of a cold start is ours: N wakes of the real model on the embedded cluster, step by step.

    .venv/bin/python -m bench.cold_start [--wakes 20]

For each wake the same waterfall as `noctaya demo`; printed are p50 and max of every step and of the control plane's share
(total minus the model's own load time), and that share as a ratio of the total within this run.
"""

import argparse
import asyncio
import statistics

import uvloop

from noctaya.kube import resources
from noctaya.kube.client import PatchType
from noctaya.local.cluster import LocalCluster, example_objects, local_cluster
from noctaya.local.demo import NAME, NAMESPACE, ask, tell_from_roles, wait_for_phase
from noctaya.local.narrator import Narrator
from noctaya.local.settings import LocalSettings
from noctaya.local.waterfall import STEPS, Waterfall

SLEEP_SECONDS = 60.0


async def measure(wakes: int) -> list[Waterfall]:
    """`wakes` cold starts, one after the other."""
    narrator, measured = Narrator(), []
    async with local_cluster(LocalSettings(), narrator) as cluster:
        await cluster.apply(example_objects())
        await sleep_quickly(cluster)
        for number in range(wakes):
            await wait_for_phase(cluster, "ScaledToZero", SLEEP_SECONDS)
            observed = await ask(cluster, "Say hello.", lambda text: None)
            await tell_from_roles(cluster, observed)
            measured.append(Waterfall.of(observed.moments, observed.model_seconds))
            narrator.line(f"wake {number + 1} of {wakes}: {measured[-1].total_seconds:.2f} s")
    return measured


async def sleep_quickly(cluster: LocalCluster) -> None:
    """Let the model sleep as soon as KEDA's poll sees it idle."""
    await cluster.client.patch(
        resources.LLMSERVICES,
        NAMESPACE,
        NAME,
        {"spec": {"scaling": {"scaleDownStabilization": "1s"}}},
        PatchType.MERGE,
    )


def table(measured: list[Waterfall]) -> list[str]:
    """The figures as a Markdown table."""
    rows = [f"| step ({len(measured)} wakes) | p50, ms after arrival | max, ms |", "| --- | --- | --- |"]
    for name, meaning in STEPS:
        values = [waterfall.offsets[name] * 1000 for waterfall in measured if name in waterfall.offsets]
        if values:
            rows.append(f"| {name}: {meaning} | {statistics.median(values):.0f} | {max(values):.0f} |")
    parts: dict[str, list[float | None]] = {
        "**control plane** (total less the model's load and first token)": [
            w.control_plane_seconds for w in measured
        ],
        "total less the model's load": [w.beyond_load_seconds for w in measured],
        "the model's own load": [w.model_seconds for w in measured],
        "the model's first token": [w.first_token_seconds for w in measured],
    }
    for label, told in parts.items():
        if known := [value for value in told if value is not None]:
            rows.append(f"| {label} | {statistics.median(known) * 1000:.0f} | {max(known) * 1000:.0f} |")
    shares = [
        w.control_plane_seconds / w.total_seconds for w in measured if w.control_plane_seconds is not None
    ]
    if shares:
        rows.append(
            f"| control plane as a share of the total | {statistics.median(shares):.1%} | {max(shares):.1%} |"
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wakes", type=int, default=20)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        measured = runner.run(measure(arguments.wakes))
    print("\n".join(table(measured)))  # noqa: T201


if __name__ == "__main__":
    main()
