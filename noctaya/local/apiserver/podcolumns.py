"""The pod table: READY, STATUS and RESTARTS are a summary of many fields, in the order of precedence users rely on."""

from __future__ import annotations

from noctaya.local.apiserver.kinds import Column
from noctaya.local.apiserver.status import Object
from noctaya.local.apiserver.tablecells import age, at, creation


def _ready(pod: Object, _: float) -> str:
    ready = sum(1 for c in at(pod, "status", "containerStatuses", default=[]) if c.get("ready"))
    return f"{ready}/{len(at(pod, 'spec', 'containers', default=[]))}"


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _init_status(pod: Object) -> str | None:
    """What an unfinished init container makes of the pod's status, or None when all are done."""
    total = len(at(pod, "spec", "initContainers", default=[]))
    for index, container in enumerate(at(pod, "status", "initContainerStatuses", default=[])):
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated and terminated.get("exitCode") == 0:
            continue
        if terminated:
            return f"Init:{_ended(terminated)}"
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return None


def pod_status(pod: Object) -> str:
    """The STATUS cell."""
    shown = str(at(pod, "status", "reason") or at(pod, "status", "phase", default="Unknown"))
    unfinished = _init_status(pod)
    if unfinished is not None:
        shown = unfinished
    else:
        running = False
        for container in reversed(at(pod, "status", "containerStatuses", default=[])):
            state = container.get("state") or {}
            if (state.get("waiting") or {}).get("reason"):
                shown = state["waiting"]["reason"]
            elif state.get("terminated"):
                shown = _ended(state["terminated"])
            elif container.get("ready") and state.get("running"):
                running = True
        if shown == "Completed" and running:
            shown = "Running"
    if pod["metadata"].get("deletionTimestamp"):
        shown = "Unknown" if at(pod, "status", "reason") == "NodeLost" else "Terminating"
    return shown


def _restarts(pod: Object, now: float) -> str:
    statuses = at(pod, "status", "containerStatuses", default=[])
    count = sum(int(c.get("restartCount") or 0) for c in statuses)
    ended = [at(c, "lastState", "terminated", "finishedAt") for c in statuses]
    last = max((e for e in ended if e), default="")
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


POD = (
    Column("Name", lambda o, _: o["metadata"]["name"], format="name"),
    Column("Ready", _ready),
    Column("Status", lambda o, _: pod_status(o)),
    Column("Restarts", _restarts),
    Column("Age", lambda o, now: age(creation(o), now)),
    Column("IP", lambda o, _: at(o, "status", "podIP") or "<none>", priority=1),
    Column("Node", lambda o, _: at(o, "spec", "nodeName") or "<none>", priority=1),
    Column("Nominated Node", lambda o, _: at(o, "status", "nominatedNodeName") or "<none>", priority=1),
    Column("Readiness Gates", lambda o, _: "<none>", priority=1),
)
