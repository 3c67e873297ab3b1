"""The image's recipe and lock, by their structure; what the whole image holds and that it boots is for `tests/containers`.

The Containerfile and `make image` make the same because both leave it to `deploy/image/contents.py`; what stands in the
Containerfile besides is compared here.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.image import contents
from tests.cluster.product_image import LABELS
from tests.deploy.manifests import ROOT

IMAGE = ROOT / "deploy" / "image"
RECIPE = {"deploy/image/contents.py", "deploy/image/libraries.py"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions() -> list[tuple[str, str]]:
    """(instruction, rest) of the Containerfile, continued lines joined, comments gone."""
    lines = [
        line
        for line in (IMAGE / "Containerfile").read_text().splitlines()
        if not line.strip().startswith("#")
    ]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (word, " ".join(rest.split()))
        for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)
    ]


def of(word: str) -> list[str]:
    return [rest for found, rest in instructions() if found == word]


def normal(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirement: str) -> str:
    """The package that a requirement of pyproject.toml is about."""
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert found is not None
    return normal(found.group(0))


def pins(name: str) -> dict[str, str]:
    """Package → the line that pins it."""
    text = (ROOT / "requirements" / name).read_text()
    return {
        normal(match.group(1)): match.group(0)
        for match in re.finditer(r"^([A-Za-z0-9_.-]+)==[^\s;]+", text, re.MULTILINE)
    }


def test_the_build_stands_on_a_base_that_is_named_by_its_digest() -> None:
    assert of("FROM") == ["${PYTHON_IMAGE}@${PYTHON_DIGEST} AS build", "scratch"]
    arguments = of("ARG")
    assert "PYTHON_DIGEST" in arguments, "no default: it would grow old unseen"
    assert any(re.fullmatch(r"PYTHON_IMAGE=python:3\.1[123]-slim-\w+", argument) for argument in arguments)


def recipes() -> list[list[str]]:
    """Words of every call of the recipe, in their order."""
    return [rest.split()[3:] for rest in of("RUN")]


def test_every_step_of_the_build_is_one_of_the_recipe_and_they_feed_each_other() -> None:
    assert all(rest.startswith("python -m deploy.image.contents ") for rest in of("RUN"))
    assert recipes() == [
        ["packages", "/site", "requirements/runtime.txt"],
        ["base", "/base", "/site"],
        ["product", "/product", "noctaya", "LICENSE"],
    ]


def test_the_finished_image_is_empty_but_for_what_the_recipe_made() -> None:
    words = [word for word, _ in instructions()]
    final = instructions()[len(words) - 1 - words[::-1].index("FROM") :]
    assert final[0] == ("FROM", "scratch")
    copies = [rest for word, rest in final if word == "COPY"]
    assert copies == ["--from=build /base /", "--from=build /product /"]
    assert "RUN" not in [word for word, _ in final]


def test_it_is_started_like_the_archive_that_make_image_makes() -> None:
    assert of("USER") == [f"{contents.NOBODY}:{contents.NOBODY}"]
    assert [tuple(json.loads(rest)) for rest in of("ENTRYPOINT")] == [contents.ENTRYPOINT]
    assert dict(word.split("=", 1) for word in of("ENV")[-1].split()) == contents.ENVIRONMENT
    labels = re.findall(r'(\S+)="([^"]*)"', of("LABEL")[0])
    assert dict(labels) == LABELS


def test_packages_come_from_the_lock_with_their_hashes_and_as_wheels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[list[str]] = []

    def run(words: list[str], **_: object) -> None:
        asked.append([str(word) for word in words])
        report = next(word for word in asked[0] if word.startswith("--report=")).partition("=")[2]
        Path(report).write_text('{"install": []}')

    monkeypatch.setattr("subprocess.run", run)
    (tmp_path / "site").mkdir()
    contents.packages(tmp_path / "site", ROOT / "requirements" / "runtime.txt")
    (words,) = asked
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(words)


def test_the_build_sees_the_package_its_lock_and_the_recipe_and_no_tests() -> None:
    lines = (IMAGE / "Containerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    seen = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    copied = {source for rest in of("COPY") if not rest.startswith("--from") for source in rest.split()[:-1]}
    assert seen == copied == {"LICENSE", "noctaya", "requirements/runtime.txt", *RECIPE}
    assert {f"deploy/image/{path.name}" for path in IMAGE.glob("*.py")} == RECIPE


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with what belongs into an image and what does not."""
    root = tmp_path / "noctaya"
    for path in ("gateway/main.py", "local/main.py", "__pycache__/x.pyc", "gateway/__pycache__/main.pyc"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("names = {'a', 'b', 'c'}\n")
    (root / "gateway/main.py").chmod(0o4640)
    return root


def test_the_product_is_compiled_without_the_embedded_cluster_and_the_same_each_time(
    package: Path, tmp_path: Path
) -> None:
    def made(name: str) -> dict[str, tuple[int, bytes]]:
        root = tmp_path / name
        contents.product(root, package, ROOT / "LICENSE")
        files = (path for path in root.rglob("*") if path.is_file())
        return {
            str(path.relative_to(root)): (path.stat().st_mode & 0o7777, path.read_bytes()) for path in files
        }

    first = made("first")
    site = f"{contents.SITE_PACKAGES[1:]}/noctaya"
    tag = sys.implementation.cache_tag
    assert set(first) == {
        "usr/local/bin/noctaya",
        "usr/share/doc/noctaya/LICENSE",
        f"{site}/gateway/main.py",
        f"{site}/gateway/__pycache__/main.{tag}.pyc",
    }
    assert {mode for mode, _ in first.values()} == {0o644, 0o755}
    assert str(tmp_path).encode() not in first[f"{site}/gateway/__pycache__/main.{tag}.pyc"][1]
    assert made("second") == first


def test_a_wrong_call_of_the_recipe_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert contents.main(["base", "only-one"]) == 2
    assert contents.main([]) == 2
    assert "python -m deploy.image.contents" in capsys.readouterr().err


def requirements() -> Iterator[str]:
    yield from (named(text) for text in PROJECT["dependencies"])


@pytest.mark.parametrize("extra", ["local", "dev"])
def test_the_runtime_lock_has_every_dependency_and_no_extra(extra: str) -> None:
    locked = set(pins("runtime.txt"))
    assert set(requirements()) <= locked
    only = {named(text) for text in PROJECT["optional-dependencies"][extra]}
    assert only.isdisjoint(locked)


def test_the_runtime_lock_pins_what_the_tests_ran_with() -> None:
    runtime, dev = pins("runtime.txt"), pins("dev.txt")
    assert runtime.items() <= dev.items()
    text = (ROOT / "requirements/runtime.txt").read_text()
    assert "://" not in text, "an index or a link of one machine"
    blocks = re.split(r"^(?=[A-Za-z0-9_.-]+==)", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in block for block in blocks)


def test_the_lock_is_made_together_with_the_other_one() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nlock:")[2].partition("\n\n")[0]
    assert "pyproject.toml -o requirements/runtime.txt" in recipe
    assert "--constraint requirements/dev.txt" in recipe
