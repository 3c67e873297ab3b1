"""Gateway and worker from the product's image, as containers against an API server."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from noctaya.api.names import SHARD_COUNT
from tests.containers import roles
from tests.containers.roles import Role, ask

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]

GRACE_SECONDS = 60
"""A worker's, as its manifest says; a gateway's is longer."""
SHARED_SECONDS = 120.0
"""A leader levels only once nobody has joined for a while."""


@contextmanager
def running(role: Role) -> Iterator[Role]:
    with role.container:
        role.wait_ready()
        yield role


def test_a_gateway_links_to_a_worker_and_refuses_an_unknown_model_as_openai_would(gateway: Role) -> None:
    status, body = ask(f"{gateway.url}/v1/chat/completions", {"model": "ai/nothing", "messages": []})
    assert (status, body["error"]["code"]) == (404, "model_not_found")
    assert ask(f"{gateway.url}/v1/models") == (200, {"object": "list", "data": []})
    assert '"message": "linked"' in gateway.log()


def test_both_run_as_nobody_on_a_root_that_cannot_be_written(worker: Role, gateway: Role) -> None:
    program = (
        "import json, os\n"
        "refused = []\n"
        "for path in ('/new', '/usr/local/lib/new', '/etc/new', '/tmp/new'):\n"
        "    try: open(path, 'w')\n"
        "    except OSError as problem: refused.append((path, problem.strerror))\n"
        "print(json.dumps([os.getuid(), os.getgid(), refused]))\n"
    )
    for role in (worker, gateway):
        user, group, refused = json.loads(role.run(program))
        assert (user, group) == (65532, 65532)
        assert [path for path, _ in refused] == ["/new", "/usr/local/lib/new", "/etc/new", "/tmp/new"]
        assert {problem for _, problem in refused} == {"Read-only file system"}


def test_a_worker_can_be_asked_from_inside_its_container_as_the_page_on_installing_does(worker: Role) -> None:
    program = f"import urllib.request as web; print(web.urlopen('{worker.admin}/readyz', timeout=30).read().decode())"
    inside, outside = json.loads(worker.run(program)), worker.wait_ready()
    assert inside == outside
    assert "problems" in inside


def test_the_authorities_that_sign_public_certificates_are_known_inside(gateway: Role) -> None:
    known = gateway.run("import ssl; print(ssl.create_default_context().cert_store_stats()['x509_ca'])")
    assert int(known) > 50


def test_sigterm_ends_a_gateway_and_a_worker_cleanly_within_their_grace(worker: Role, account: Path) -> None:
    with running(roles.worker(account, "second-worker")) as ended_worker:
        with running(roles.gateway(worker.control, "second-gateway")) as ended_gateway:
            for role, word in ((ended_gateway, "gateway ended"), (ended_worker, "")):
                asked = time.monotonic()
                role.container.get_wrapped_container().stop(timeout=GRACE_SECONDS)
                assert time.monotonic() - asked < GRACE_SECONDS
                state = role.state()
                assert (state["Running"], state["ExitCode"]) == (False, 0), role.log()
                assert word in role.log()


def test_workers_share_the_shards_and_one_that_is_told_to_end_gives_its_own_back(
    worker: Role, account: Path
) -> None:
    with running(roles.worker(account, "third-worker")) as other:
        until(
            lambda: (worker.shards(), other.shards()) == (SHARD_COUNT // 2, SHARD_COUNT // 2),
            "both own half of the shards",
        )
        other.container.get_wrapped_container().stop(timeout=GRACE_SECONDS)
        assert other.state()["ExitCode"] == 0, other.log()
        assert "not all shards were handed over" not in other.log()
    until(lambda: worker.shards() == SHARD_COUNT, "the other one owns all of them")


def until(claim: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SHARED_SECONDS
    while not claim():
        assert time.monotonic() < deadline, f"it never happened that {what}"
        time.sleep(roles.TICK_SECONDS)


def test_a_setting_that_does_not_exist_stops_the_container_with_the_name_that_was_meant(docker: str) -> None:
    del docker
    role = roles.gateway("127.0.0.1:1")
    with role.container.with_env("NOCTAYA_HTTP__PROT", "80") as started:
        assert started.get_wrapped_container().wait(timeout=60)["StatusCode"] == 2
        assert "NOCTAYA_HTTP__PORT" in role.log()
        assert "Traceback" not in role.log()
