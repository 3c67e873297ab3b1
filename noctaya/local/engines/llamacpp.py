"""Serves a GGUF model with llama.cpp's own server, out of the xllamacpp wheel: OpenAI API, /health, /metrics, /slots.

    python -m noctaya.local.engines.llamacpp --model PATH [--host IP] [--port N] [--alias NAME] …

Exit codes: 2 for a mistake in the arguments or a missing model file, with one sentence on stderr; 1 when llama.cpp cannot load
the model. SIGTERM ends at once: an engine's requests are drained before, by the gateway.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

DEFAULT_HOST = "127.0.0.1"
POD_IP_VARIABLE = "NOCTAYA_LOCAL_POD_IP"


def parser() -> argparse.ArgumentParser:
    """The command line; names as llama-server has them."""
    arguments = argparse.ArgumentParser(
        prog="noctaya.local.engines.llamacpp", description="Serve a GGUF model."
    )
    arguments.add_argument(
        "--model", "-m", required=True, type=Path, help="GGUF file, or a directory that holds one"
    )
    host = os.environ.get(POD_IP_VARIABLE, DEFAULT_HOST)
    arguments.add_argument("--host", default=host, help="address to listen on (default: the pod's own)")
    arguments.add_argument("--port", default=8080, type=int, help="port to listen on (default: 8080)")
    arguments.add_argument(
        "--alias", "-a", default="", help="model name in answers (default: the file's name)"
    )
    arguments.add_argument(
        "--ctx-size", "-c", default=4096, type=int, help="context in tokens, shared by all slots"
    )
    arguments.add_argument("--parallel", "-np", default=4, type=int, help="requests decoded at the same time")
    threads = os.cpu_count() or 2
    arguments.add_argument(
        "--threads", "-t", default=threads, type=int, help=f"compute threads (default: {threads})"
    )
    return arguments


def model_file(path: Path) -> Path:
    """The GGUF file that `path` names.

    Raises:
        ValueError: there is none, or the directory holds several; the message is for a person.
    """
    if path.is_dir():
        found = sorted(path.glob("*.gguf"))
        if len(found) != 1:
            names = ", ".join(item.name for item in found) or "none"
            raise ValueError(
                f"{path} should hold exactly one .gguf file; it holds {names}. Name the file with --model."
            )
        return found[0]
    if not path.is_file():
        raise ValueError(
            f"model file {path} does not exist; check the model's source and the path in the runtime's args."
        )
    return path


def say(text: str, stream: TextIO = sys.stdout) -> None:
    """A line for whoever reads the container's log."""
    stream.write(f"{text}\n")
    stream.flush()


def seconds_since_start() -> float:
    """Age of this process, the interpreter's own start included: what a cold start owes to the model and its engine."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT."""
    options = parser().parse_args(argv)
    try:
        model = model_file(options.model)
    except ValueError as error:
        say(f"llamacpp: {error}", sys.stderr)
        return 2
    ended = {signal.SIGTERM, signal.SIGINT}
    # Blocked before llama.cpp makes its threads, so that only sigwait below takes them.
    signal.pthread_sigmask(signal.SIG_BLOCK, ended)
    started = time.monotonic()
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.model_alias = {options.alias or model.stem}
    parameters.hostnames = [options.host]
    parameters.port = options.port
    parameters.n_ctx = options.ctx_size
    parameters.n_parallel = options.parallel
    parameters.n_threads_http = max(8, options.parallel + 4)  # /health must be answered beside busy slots
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    parameters.endpoint_metrics = True
    parameters.endpoint_slots = True
    try:
        server = xllamacpp.Server(parameters)
    except Exception as error:
        say(f"llamacpp: cannot serve {model}: {error}", sys.stderr)
        return 1
    seconds = time.monotonic() - started
    say(
        f"listening on {server.listening_address} model={model.name} load_seconds={seconds:.2f} "
        f"seconds_since_start={seconds_since_start():.3f}"
    )
    signal.sigwait(ended)
    os._exit(0)  # joining llama.cpp's threads would wait for running generations


if __name__ == "__main__":
    sys.exit(main())
