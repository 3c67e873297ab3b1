"""`python -m tests.containers.api_server FOLDER`: the embedded API server with Noctaya's and KEDA's types, as a process.

Writes what a pod finds of its cluster into FOLDER (`token`, `ca.crt`, `namespace`) and `url` last: once it is there, the
server answers. Runs until SIGTERM.
"""

import asyncio
import signal
import sys
from pathlib import Path

from noctaya.api.crds import crds
from noctaya.kube.client import Client
from noctaya.kube.config import ClusterConfig
from noctaya.kube.resources import CRDS, NAMESPACES
from noctaya.local.apiserver.server import ApiServer
from noctaya.local.keda import crds as keda_crds

SYSTEM = "noctaya-system"


async def serve(folder: Path) -> None:
    """Until SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with ApiServer() as server:
        config = ClusterConfig.load(str(server.kubeconfig(folder / "kubeconfig")))
        async with Client(config, user_agent="noctaya-tests") as client:
            for definition in (*crds(), *keda_crds()):
                await client.create(CRDS, None, definition)
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
            await client.create(NAMESPACES, None, namespace)
        access = server.client_config()
        (folder / "token").write_text(access.token)
        (folder / "ca.crt").write_bytes(access.ca_path.read_bytes())
        (folder / "namespace").write_text(SYSTEM)
        (folder / "url.part").write_text(access.url)
        (folder / "url.part").rename(folder / "url")
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
