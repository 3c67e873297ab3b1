"""Volumes for claims: nothing provisions on the test cluster, so a test makes the volume that its claim will bind to."""

from tests.acceptance.api import Object

CLASS = "by-hand"


def storage_class() -> Object:
    """The cluster's default class, as a cluster of users has one; it provisions nothing by itself."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(namespace: str, claim: str, *, size: str = "50Gi") -> Object:
    """A PersistentVolume on the node, for one claim only; it lives in the cluster's own `/var/lib` and goes with it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{claim}"},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": CLASS,
            "hostPath": {"path": f"/var/lib/volumes/{namespace}/{claim}", "type": "DirectoryOrCreate"},
            "claimRef": {"namespace": namespace, "name": claim},
        },
    }
