"""The images that the cluster itself is made of, and their names."""

from pathlib import Path

from tests.cluster.image import program_image

DOMAIN = "images.noctaya.test"
"""A reserved top-level domain: no image of that name can ever be pulled, so a missing one fails at once."""
PAUSE = f"{DOMAIN}/pause:1"
DNS = f"{DOMAIN}/coredns:1"
KEDA_OPERATOR = f"{DOMAIN}/keda-operator:1"
KEDA_ADAPTER = f"{DOMAIN}/keda-adapter:1"
KEDA_WEBHOOKS = f"{DOMAIN}/keda-webhooks:1"
PROGRAMS = {
    PAUSE: ("pause", "/pause"),
    DNS: ("coredns", "/coredns"),
    # the paths that KEDA's own manifests give as commands
    KEDA_OPERATOR: ("keda-operator", "/keda"),
    KEDA_ADAPTER: ("keda-adapter", "/keda-adapter"),
    KEDA_WEBHOOKS: ("keda-webhooks", "/keda-admission-webhooks"),
}


def write_all(programs: Path, folder: Path) -> None:
    """Write an archive for each image, from programs in a folder."""
    for name, (program, path) in PROGRAMS.items():
        program_image(name, programs / program, path=path).write(folder / f"{program}.tar")
