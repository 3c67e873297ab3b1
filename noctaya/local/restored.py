"""What a cluster that starts on saved state must forget: everything that spoke of processes, because they ended with the last run.

As on a node that came back after a power cut with its pods evicted: Deployments and Jobs make their pods anew. The roles'
own Deployments are made anew as well, since their addresses change with every start; left in place, the pods of the last
run would be started first and stand for ready ones.
"""

from noctaya.kube import resources
from noctaya.kube.client import Client
from noctaya.kube.errors import NotFound
from noctaya.kube.resources import Resource
from noctaya.local.system import SYSTEM_NAMESPACE

PROCESS_KINDS: tuple[tuple[Resource, str | None], ...] = (
    (resources.DEPLOYMENTS, SYSTEM_NAMESPACE),
    (resources.REPLICASETS, SYSTEM_NAMESPACE),
    (resources.PODS, None),
    (resources.ENDPOINTSLICES, None),
)


async def forget_processes(client: Client) -> None:
    """Delete the records of the last run's processes, before any controller or agent looks at them.

    Raises:
        KubeError: the API server does not answer.
    """
    for resource, namespace in PROCESS_KINDS:
        for found in (await client.list(resource, namespace)).items:
            metadata = found["metadata"]
            try:
                await client.delete(resource, metadata["namespace"], metadata["name"], grace_period_seconds=0)
            except NotFound:
                continue  # it went with its owner
