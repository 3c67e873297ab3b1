"""How long the product's image needs from the start of its process until it is ready.

    python -m bench.starts [--starts 20] [--json]

Needs root and a Docker engine's programs (`docker.io`), or an engine in `DOCKER_HOST`. Gateways start one after the other as
containers, as the manifests have them (read-only, nobody), against one worker that runs; counted from the engine's `StartedAt`
until `/readyz` says yes. Printed is a row of a Markdown table, in milliseconds.
"""

import argparse
import statistics
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import msgspec

from tests.cluster.product_image import product_image
from tests.containers import roles, surroundings

LOOK_SECONDS = 0.005
LONGEST_SECONDS = 60.0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="all figures, in milliseconds")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="noctaya-starts-") as folder:
        found = measure(Path(folder), arguments.starts)
    if arguments.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return 0
    sys.stdout.write(
        "| a gateway's process starts → `/readyz` says yes | p50, ms | max, ms |\n| --- | --- | --- |\n"
        f"| {len(found)} starts | {statistics.median(found):.0f} | {max(found):.0f} |\n"
    )
    return 0


def measure(folder: Path, starts: int) -> list[float]:
    """Milliseconds of so many starts of a gateway."""
    places = folder / "docker", folder / "account"
    for place in places:
        place.mkdir()
    folder.chmod(0o755)
    with surroundings.docker(product_image(), places[0]), surroundings.api_server(places[1]) as account:
        worker = roles.worker(account)
        with worker.container:
            worker.wait_ready()
            return [start(worker.control, f"gateway-{number}") for number in range(starts)]


def start(worker: str, name: str) -> float:
    """Milliseconds of one start."""
    gateway = roles.gateway(worker, name)
    with gateway.container:
        deadline = time.monotonic() + LONGEST_SECONDS
        while roles.ask(f"{gateway.admin}/readyz")[0] != 200:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} is not ready: {gateway.log()}")
            time.sleep(LOOK_SECONDS)
        ready = time.time()
        began = datetime.fromisoformat(gateway.state()["StartedAt"])
    return (ready - began.timestamp()) * 1000


if __name__ == "__main__":
    sys.exit(main())
