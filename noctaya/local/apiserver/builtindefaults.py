"""Defaults of the built-in kinds: those that controllers, the node agent and people rely on."""

from __future__ import annotations

import base64

from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.status import Json, Object
from noctaya.local.apiserver.tablecells import at

_PROBE: Object = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_POD_SPEC: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_CONTAINER: Object = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_ROLLING: Object = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}


def defaulted(kind: Kind, new: Object) -> Object:
    """The object with its kind's defaults; parts of the wrong type are left for validation to name."""
    match kind.storage:
        case "/pods":
            return _in_spec(new, _pod_spec)
        case "apps/deployments":
            return _in_spec(new, _deployment_spec)
        case "apps/replicasets":
            return _in_spec(new, lambda spec: _templated({"replicas": 1, **_present(spec)}))
        case "batch/jobs":
            return _labelled(_in_spec(new, lambda spec: _job_spec(spec, new)))
        case "/services":
            return _in_spec(new, _service_spec)
        case "/secrets":
            return _secret(new)
        case "/persistentvolumeclaims":
            return _in_spec(new, lambda spec: {"volumeMode": "Filesystem", **_present(spec)})
        case "/persistentvolumes":
            claim = {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"}
            return _in_spec(new, lambda spec: {**claim, **_present(spec)})
        case "storage.k8s.io/storageclasses":
            return {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate", **new}
        case "autoscaling/horizontalpodautoscalers":
            return _in_spec(new, lambda spec: {"minReplicas": 1, **_present(spec)})
    return new


def _present(found: Object) -> Object:
    """Without nulls, which mean "the default" to built-in kinds."""
    return {key: value for key, value in found.items() if value is not None}


def _in_spec(new: Object, fill: object) -> Object:
    spec = new.get("spec")
    if not isinstance(spec, dict) or not callable(fill):
        return new
    return {**new, "spec": fill(spec)}


def _templated(spec: Object) -> Object:
    template = spec.get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return spec
    return {**spec, "template": {**template, "spec": _pod_spec(template["spec"])}}


def _pod_spec(spec: Object) -> Object:
    spec = {**_POD_SPEC, **_present(spec)}
    for listed in ("containers", "initContainers"):
        containers = spec.get(listed)
        if isinstance(containers, list):
            spec[listed] = [_container(one) if isinstance(one, dict) else one for one in containers]
    if isinstance(spec.get("volumes"), list):
        spec["volumes"] = [_volume(one) for one in spec["volumes"]]
    return spec


def _container(container: Object) -> Object:
    container = {**_CONTAINER, **_present(container)}
    image = str(container.get("image", ""))
    tag = image.rsplit("/", 1)[-1]
    latest = "@" not in tag and (":" not in tag or tag.endswith(":latest"))
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    if isinstance(container.get("ports"), list):
        container["ports"] = [
            {"protocol": "TCP", **port} if isinstance(port, dict) else port for port in container["ports"]
        ]
    for name in ("readinessProbe", "livenessProbe", "startupProbe"):
        if isinstance(container.get(name), dict):
            container[name] = _probe(container[name])
    resources = container["resources"]
    if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
        container["resources"] = {
            **resources,
            "requests": {**resources["limits"], **(resources.get("requests") or {})},
        }
    return container


def _probe(probe: Object) -> Object:
    probe = {**_PROBE, **_present(probe)}
    if isinstance(probe.get("httpGet"), dict):
        probe["httpGet"] = {"path": "/", "scheme": "HTTP", **probe["httpGet"]}
    return probe


def _volume(volume: Json) -> Json:
    if not isinstance(volume, dict):
        return volume
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if isinstance(volume.get(source), dict):
            return {**volume, source: {"defaultMode": 420, **volume[source]}}
    if isinstance(volume.get("hostPath"), dict):
        return {**volume, "hostPath": {"type": "", **volume["hostPath"]}}
    return volume


def _deployment_spec(spec: Object) -> Object:
    defaults = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}
    spec = _templated({**defaults, **_present(spec)})
    strategy = spec.get("strategy") or {}
    if isinstance(strategy, dict) and strategy.get("type", "RollingUpdate") == "RollingUpdate":
        rolling = {**_ROLLING["rollingUpdate"], **(strategy.get("rollingUpdate") or {})}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return {**spec, "strategy": strategy}


def _job_spec(spec: Object, job: Object) -> Object:
    defaults: Object = {
        "parallelism": 1,
        "completionMode": "NonIndexed",
        "backoffLimit": 6,
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    if spec.get("parallelism") is None and spec.get("completions") is None:
        defaults["completions"] = 1
    spec = _templated({**defaults, **_present(spec)})
    metadata = job["metadata"]
    template = spec.get("template")
    if spec.get("manualSelector") or not isinstance(template, dict):
        return spec
    identity = {
        "batch.kubernetes.io/controller-uid": metadata["uid"],
        "batch.kubernetes.io/job-name": metadata["name"],
        "controller-uid": metadata["uid"],
        "job-name": metadata["name"],
    }
    spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}})
    below = template.get("metadata") or {}
    labelled = {**below, "labels": {**(below.get("labels") or {}), **identity}}
    return {**spec, "template": {**template, "metadata": labelled}}


def _labelled(job: Object) -> Object:
    """A Job without labels takes its template's."""
    template = at(job, "spec", "template", "metadata", "labels", default=None)
    metadata = job["metadata"]
    return (
        job
        if metadata.get("labels") or not template
        else {**job, "metadata": {**metadata, "labels": template}}
    )


def _service_spec(spec: Object) -> Object:
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **_present(spec)}
    if isinstance(spec.get("ports"), list):
        spec["ports"] = [_service_port(port) if isinstance(port, dict) else port for port in spec["ports"]]
    if spec["type"] == "ExternalName":
        return spec
    spec = {
        "internalTrafficPolicy": "Cluster",
        "ipFamilyPolicy": "SingleStack",
        "ipFamilies": ["IPv4"],
        **spec,
    }
    if spec.get("clusterIP") == "None":
        return {**spec, "clusterIPs": ["None"]}
    return spec


def _service_port(port: Object) -> Object:
    return {"protocol": "TCP", "targetPort": port.get("port"), **_present(port)}


def _secret(new: Object) -> Object:
    new = {"type": "Opaque", **new}
    given = new.pop("stringData", None)
    if isinstance(given, dict):
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in given.items()}
        new["data"] = {**(new.get("data") or {}), **encoded}
    return new
