"""Performs what a pod's lifecycle decides about one container: start, stop, probe. No policy here.

Each operation reports back with an event and never raises for what a container or a user did wrong.
"""

import asyncio
import contextlib
import shutil
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from noctaya.kube.errors import KubeError
from noctaya.kube.metadata import format_time
from noctaya.local.agent.checks import ask
from noctaya.local.agent.environment import EnvironmentSource
from noctaya.local.agent.errors import NotStarted, VolumeNotReady
from noctaya.local.agent.logs import ContainerLog
from noctaya.local.agent.node import Node
from noctaya.local.agent.processes import RunningProcess
from noctaya.local.agent.spec import ContainerSpec, Hook, PodObject, PodSpec, ProbeKind, Sleep
from noctaya.local.agent.states import Event, Exited, Probed, Started, Tell
from noctaya.local.agent.states import NotStarted as NotStartedEvent
from noctaya.local.agent.translation import PathTranslation, expand
from noctaya.local.agent.volumes import PodVolumes

COMMAND_OUTPUT_BYTES = 10 * 1024
TERMINATION_BYTES = 4096
START_ERROR = 128

Report = Callable[[Event], Awaitable[None]]


@dataclass(slots=True)
class Run:
    """One attempt that was started."""

    process: RunningProcess
    env: dict[str, str]
    cwd: Path
    translate: PathTranslation


class ContainerOperations:
    """Start, stop and probe the containers of one pod."""

    def __init__(
        self, node: Node, pod: PodObject, spec: PodSpec, ip: str, volumes: PodVolumes, directory: Path,
        report: Report, tell: Callable[[Tell], None],
    ) -> None:  # fmt: skip
        self._node = node
        self._spec = spec
        self._ip = ip
        self._volumes = volumes
        self._directory = directory
        self._report = report
        self._tell = tell
        self._pod = pod
        self._runs: dict[str, Run] = {}

    async def start(self, name: str, attempt: int) -> None:
        """Start an attempt and stay with it until it has ended."""
        container = self._spec.find(name)
        try:
            argv, env, translate, cwd = await self._prepare(container)
        except NotStarted as error:
            await self._report(NotStartedEvent(name, error.reason, error.message))
            return
        except (VolumeNotReady, KubeError) as error:
            await self._report(NotStartedEvent(name, "CreateContainerConfigError", str(error)))
            return
        self._tell(Tell("Created", f"Created container: {name}", container=name))
        if shutil.which(argv[0], path=env.get("PATH")) is None:
            message = f'failed to start container: exec: "{argv[0]}": executable file not found in $PATH'
            self._tell(Tell("Failed", f"Error: {message}", "Warning", name))
            await self._report(Exited(name, START_ERROR, 0, wall_time(), message, "StartError"))
            return
        log = self._node.logs.open(self._spec.namespace, self._spec.name, self._spec.uid, name, attempt)
        try:
            process = await self._node.processes.spawn(argv, env, cwd, log.write)
        except OSError as error:
            log.close()
            await self._report(NotStartedEvent(name, "CreateContainerError", str(error)))
            return
        try:
            self._runs[name] = Run(process, env, cwd, translate)
            await self._report(Started(name, wall_time()))
            await process.ended.wait()
        finally:
            log.close()
        message = self._termination_message(container, process.exit_code, log)
        await self._report(Exited(name, process.exit_code, process.killed_by, wall_time(), message))

    async def _prepare(
        self, container: ContainerSpec
    ) -> tuple[list[str], dict[str, str], PathTranslation, Path]:
        try:
            image = self._node.images.find(container.image)
        except NotStarted:
            self._tell(Tell("Pulling", f'Pulling image "{container.image}"', container=container.name))
            raise
        text = f'Container image "{container.image}" already present on machine'
        self._tell(Tell("Pulled", text, container=container.name))
        # Read anew at each start, so that a changed Secret reaches the next attempt.
        source = EnvironmentSource(self._node.client, self._pod, self._ip, self._node.settings.node_name)
        variables, own = await source.resolve(container, image)
        termination = self._directory / "termination" / container.name
        termination.parent.mkdir(parents=True, exist_ok=True)
        termination.write_bytes(b"")
        paths = {**self._volumes.paths(container), container.termination_message_path: termination}
        translate = PathTranslation(paths)
        scratch = self._directory / "tmp" / container.name
        scratch.mkdir(parents=True, exist_ok=True)
        # What the pod says is translated; this machine's own paths (PATH, the image's program) are real already.
        env = {name: translate(value) if name in own else value for name, value in variables.items()}
        env.setdefault("TMPDIR", str(scratch))
        command = tuple(translate(expand(word, variables)) for word in container.command)
        args = tuple(translate(expand(word, variables)) for word in container.args)
        argv = image.argv(command, args)
        return argv, env, translate, working_directory(container, translate, scratch)

    def _termination_message(self, container: ContainerSpec, exit_code: int, log: ContainerLog) -> str:
        path = self._directory / "termination" / container.name
        message = path.read_bytes()[:TERMINATION_BYTES].decode(errors="replace") if path.is_file() else ""
        if not message and exit_code and container.falls_back_to_logs:
            return log.last_bytes(2048)
        return message

    async def stop(self, name: str, grace_seconds: float, with_hook: bool) -> None:
        """preStop, SIGTERM, and SIGKILL when the grace period is over; `start` reports the end."""
        run = self._runs[name]
        container = self._spec.find(name)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_seconds
        if with_hook and container.pre_stop is not None and grace_seconds > 0:
            await self._run_hook(container.pre_stop, run, name, grace_seconds)
        if grace_seconds > 0:
            run.process.send(signal.SIGTERM)
            left = max(deadline - loop.time(), min(grace_seconds, self._node.settings.minimum_grace_seconds))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await run.process.ended.wait()
        run.process.send(signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL for everything that runs."""
        for run in self._runs.values():
            run.process.send(signal.SIGKILL)

    async def _run_hook(self, hook: Hook, run: Run, name: str, grace_seconds: float) -> None:
        if isinstance(hook, Sleep):
            with contextlib.suppress(TimeoutError):  # the container may end by itself while we wait
                async with asyncio.timeout(min(hook.seconds, grace_seconds)):
                    await run.process.ended.wait()
            return
        answer = await ask(hook, self._ip, grace_seconds, lambda command: self._command(run, command))
        if not answer.good:
            self._tell(Tell("FailedPreStopHook", f"PreStopHook failed: {answer.detail}", "Warning", name))

    async def probe(self, name: str, attempt: int, kind: ProbeKind) -> None:
        """Ask once."""
        run = self._runs[name]
        spec = self._spec.find(name).probe(kind)
        if spec is None:
            return
        asked = asyncio.get_running_loop().time()
        answer = await ask(
            spec.check, self._ip, spec.timeout_seconds, lambda command: self._command(run, command)
        )
        await self._report(Probed(name, attempt, kind, answer.good, answer.detail, asked))

    async def _command(self, run: Run, command: tuple[str, ...]) -> tuple[int, str]:
        """Run a command with the container's environment and directory; killed when this is cancelled."""
        output = bytearray()

        def keep(chunk: bytes) -> None:
            output.extend(chunk[: COMMAND_OUTPUT_BYTES - len(output)])

        argv = [run.translate(word) for word in command]
        try:
            process = await self._node.processes.spawn(argv, run.env, run.cwd, keep)
        except OSError as error:
            return START_ERROR, str(error)
        try:
            await process.ended.wait()
        finally:
            process.send(signal.SIGKILL)
        return process.exit_code, output.decode(errors="replace")


def working_directory(container: ContainerSpec, translate: PathTranslation, scratch: Path) -> Path:
    """`workingDir` where it exists on this machine, else the container's scratch directory."""
    wanted = Path(translate(container.working_dir)) if container.working_dir else scratch
    return wanted if wanted.is_dir() else scratch


def wall_time() -> str:
    """Now, for people, as the API writes it."""
    return format_time(datetime.now(UTC))
