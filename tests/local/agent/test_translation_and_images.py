"""Mount paths become real ones, and image names programs, by written rules."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.local.agent.addresses import AddressPool
from noctaya.local.agent.errors import NotStarted
from noctaya.local.agent.images import ImageTable, LocalImage
from noctaya.local.agent.translation import PathTranslation, expand

TRANSLATE = PathTranslation(
    {"/models": Path("/real/m"), "/models/deep": Path("/real/d"), "/dev/shm": Path("/no")}
)


@pytest.mark.parametrize(
    ("written", "real"),
    [
        ("/models", "/real/m"),
        ("/models/a.gguf", "/real/m/a.gguf"),
        ("/models/deep/x", "/real/d/x"),
        ("--model=/models/a", "--model=/real/m/a"),
        ("/models/a:/models/deep", "/real/m/a:/real/d"),
        ("/modelsx", "/modelsx"),
        ("/other/models", "/other/models"),
        ("http://host/models/a", "http://host/models/a"),
        ("/dev/shm", "/dev/shm"),
        ("plain", "plain"),
    ],
)
def test_a_mount_path_is_replaced_at_path_boundaries_only(written: str, real: str) -> None:
    assert TRANSLATE(written) == real


@given(st.text())
def test_text_without_a_mount_path_stays_as_it_is(text: str) -> None:
    if "/models" not in text:
        assert TRANSLATE(text) == text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$$(A)", "$(A)"),
        ("$(C)", "$(C)"),
        ("$", "$"),
        ("$A $( A)", "$A $( A)"),
    ],
)
def test_variables_are_expanded_as_kubernetes_does(written: str, meant: str) -> None:
    assert expand(written, {"A": "1", "B": "2"}) == meant


IMAGE = LocalImage(("run",), ("default",))


@pytest.mark.parametrize("name", ["repo/app", "repo/app:v1", "repo/app@sha256:abc", "repo/app:v1@sha256:abc"])
def test_any_tag_of_a_repository_is_its_program(name: str) -> None:
    assert ImageTable({"repo/app": IMAGE}).find(name) is IMAGE


def test_a_tag_of_its_own_wins_and_a_port_is_no_tag() -> None:
    tagged, ported = LocalImage(("tagged",)), LocalImage(("ported",))
    table = ImageTable({"app": IMAGE, "app:v2": tagged, "host:5000/app": ported})
    assert table.find("app:v2") is tagged
    assert table.find("host:5000/app") is ported
    assert table.find("host:5000/app:v9") is ported


@pytest.mark.parametrize(
    ("name", "reason"), [("other:v1", "ErrImagePull"), ("", "InvalidImageName"), ("a b", "InvalidImageName")]
)
def test_other_names_fail_as_on_a_cluster(name: str, reason: str) -> None:
    with pytest.raises(NotStarted) as caught:
        ImageTable({"app": IMAGE}).find(name)
    assert caught.value.reason == reason


def test_command_replaces_the_entrypoint_and_args_its_arguments() -> None:
    assert IMAGE.argv((), ()) == ["run", "default"]
    assert IMAGE.argv((), ("a",)) == ["run", "a"]
    assert IMAGE.argv(("c",), ()) == ["c"]
    assert IMAGE.argv(("c",), ("a",)) == ["c", "a"]


def test_an_address_is_not_given_twice_nor_again_at_once() -> None:
    pool = AddressPool("127.64.0.0/22")
    first = pool.take()
    pool.give_back(first)
    others = [pool.take() for _ in range(900)]
    assert len(set(others)) == 900
    assert first not in others[:500]
    assert not any(address.endswith((".0", ".255")) for address in others)
