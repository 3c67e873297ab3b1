"""Which local program stands for which image. A name that is not in the table fails as a pull of a missing image fails.

An image is looked up as `repository:tag` first, then as `repository` for any tag; a digest is ignored, a registry host is
part of the repository. `pullPolicy` has no meaning here.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from noctaya.local.agent.errors import NotStarted


@dataclass(frozen=True, slots=True)
class LocalImage:
    """A program on this machine in the role of an image.

    `entrypoint` is what a container's `command` replaces and `args` follow; `arguments` is what `args` replace. Values of
    `env` may refer to `$(POD_IP)`, and the container's own env wins over them.
    """

    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    def argv(self, command: tuple[str, ...], args: tuple[str, ...]) -> list[str]:
        """Command line by Kubernetes' rules for `command` and `args`."""
        if command:
            return [*command, *args]
        return [*self.entrypoint, *(args or self.arguments)]


class ImageTable:
    """Image names and their programs."""

    def __init__(self, images: Mapping[str, LocalImage]) -> None:
        self._images = dict(images)

    def with_images(self, images: Mapping[str, LocalImage]) -> "ImageTable":
        """A table with more (or other) images."""
        return ImageTable({**self._images, **images})

    def find(self, name: str) -> LocalImage:
        """The program for an image name.

        Raises:
            NotStarted: `InvalidImageName` for an empty name, `ErrImagePull` for an unknown one.
        """
        if not name or name != name.strip() or " " in name:
            raise NotStarted(
                "InvalidImageName", f'Failed to apply default image tag "{name}": invalid reference format'
            )
        plain = name.partition("@")[0]
        repository = plain
        if ":" in plain.rpartition("/")[2]:
            repository = plain.rpartition(":")[0]
        image = self._images.get(plain) or self._images.get(repository)
        if image is None:
            known = ", ".join(sorted(self._images))
            raise NotStarted(
                "ErrImagePull", f"{name}: not found (programs that stand for images here: {known})"
            )
        return image


def default_images() -> ImageTable:
    """Noctaya itself, its two engines, and a program that only waits."""
    here = (sys.executable, "-m")
    pod_ip = {"NOCTAYA_LOCAL_POD_IP": "$(POD_IP)"}
    return ImageTable(
        {
            # No NOCTAYA_LOCAL_… here: a role refuses to start with a NOCTAYA_ variable that it does not know.
            "noctaya": LocalImage((*here, "noctaya")),
            "noctaya/llamacpp": LocalImage((*here, "noctaya.local.engines.llamacpp"), env=pod_ip),
            "noctaya/scripted": LocalImage((*here, "noctaya.local.engines.scripted"), env=pod_ip),
            "pause": LocalImage((sys.executable, "-I", "-S", "-c", "import signal; signal.sigwait({15, 2})")),
        }
    )
