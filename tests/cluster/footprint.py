"""What a cluster could leave on the machine, counted before and after: the proof that it leaves nothing."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from tests.cluster import control_groups, sysctls
from tests.cluster.processes import run

TRACES = tuple(
    Path(name)
    for name in (
        "/run/containerd",
        "/run/netns",
        "/var/lib/cni",
        "/var/lib/containerd",
        "/var/lib/kubelet",
        "/var/log/containers",
        "/var/log/pods",
    )
)
"""Where node agents write when nobody stops them."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Everything that can be counted of it, by kind."""

    mounts: frozenset[str]
    links: frozenset[str]
    firewall: frozenset[str]
    groups: frozenset[str]
    settings: frozenset[str]
    folders: frozenset[str]

    @classmethod
    def now(cls) -> "Footprint":
        """As the machine is, seen from this process's namespaces."""
        rules = run(["iptables-save"]).splitlines()
        return cls(
            mounts=frozenset(line.split()[4] for line in _lines("/proc/self/mountinfo")),
            links=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
            # chains carry counters, which change by themselves
            firewall=frozenset(line.partition("[")[0] for line in rules if not line.startswith("#")),
            groups=frozenset(_own_groups()),
            settings=frozenset(f"{name}={value.strip()}" for name, value in sysctls.current().items()),
            folders=frozenset(str(path) for path in TRACES if path.exists()),
        )

    def beyond(self, before: "Footprint") -> dict[str, set[str]]:
        """What is here and was not before, by kind; nothing for kinds without."""
        more = {field.name: getattr(self, field.name) - getattr(before, field.name) for field in fields(self)}
        return {kind: set(found) for kind, found in more.items() if found}


def _own_groups() -> Iterable[str]:
    for base in (control_groups.ROOT, *control_groups.ROOT.iterdir()):
        if base.is_dir() and not base.is_symlink():
            yield from (
                str(path)
                for path in base.iterdir()
                if path.is_dir() and path.name.startswith(("kubepods", "noctaya-"))
            )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
