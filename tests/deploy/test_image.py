"""The image's recipe and lock, by their structure: building needs a container engine and the network, which tests have not.

That the image runs is proved where one can be made (the cluster's tests put the same contents together).
"""

import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.deploy.manifests import ROOT

IMAGE = ROOT / "deploy" / "image"
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


def test_both_stages_stand_on_a_base_that_is_named_by_its_digest() -> None:
    assert [rest.partition(" AS ")[0] for rest in of("FROM")] == ["${PYTHON_IMAGE}@${PYTHON_DIGEST}"] * 2
    arguments = of("ARG")
    assert "PYTHON_DIGEST" in arguments, "no default: it would grow old unseen"
    assert any(re.fullmatch(r"PYTHON_IMAGE=python:3\.1[123]-slim-\w+", argument) for argument in arguments)


def test_the_finished_image_takes_only_the_environment_from_the_build() -> None:
    words = [word for word, _ in instructions()]
    final = instructions()[len(words) - 1 - words[::-1].index("FROM") :]
    copies = [rest for word, rest in final if word == "COPY"]
    assert copies == ["--from=build /opt/noctaya /opt/noctaya", "LICENSE /usr/share/doc/noctaya/LICENSE"]


def test_nothing_that_compiles_or_installs_is_left() -> None:
    whole = " ".join(rest for _, rest in instructions())
    for tool in ("apt-get", "apk ", "gcc", "build-essential", "curl ", "wget "):
        assert tool not in whole
    assert "venv --without-pip" in whole
    assert "pip uninstall --yes" in of("RUN")[-1]


def test_packages_come_from_the_lock_with_their_hashes_and_as_wheels() -> None:
    (install,) = [rest for rest in of("RUN") if " install " in rest]
    assert "--require-hashes" in install
    assert "--only-binary=:all:" in install
    assert "-r /tmp/runtime.txt" in install


def test_it_runs_as_nobody_and_signals_reach_the_process() -> None:
    assert of("USER") == ["65532:65532"]
    assert of("ENTRYPOINT") == ['["/opt/noctaya/bin/python", "-m", "noctaya"]']
    assert any("PYTHONDONTWRITEBYTECODE=1" in rest for rest in of("ENV")[-1:])


def test_the_build_sees_the_package_and_its_lock_and_no_tests() -> None:
    lines = (IMAGE / "Containerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    seen = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    copied = {rest.split()[0] for rest in of("COPY") if not rest.startswith("--from")}
    assert seen == copied == {"LICENSE", "noctaya", "requirements/runtime.txt"}


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
