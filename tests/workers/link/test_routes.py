"""The route book, the claims on names, and what is told of one service."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.api.inferenceruntime import InferenceRuntime as RuntimeModel
from noctaya.api.llmservice import LLMService as ServiceModel
from noctaya.api.names import shard_of
from noctaya.kube.objects import Condition, Metadata, Pod, PodStatus
from noctaya.wire import control
from noctaya.workers.claims import Claims
from noctaya.workers.keys import digesting, digests_of
from noctaya.workers.objects import LLMService, LLMServiceStatus
from noctaya.workers.route_book import TOMBSTONES, RouteBook
from noctaya.workers.routes import Access, health_path, route_of
from tests.api.samples import inferenceruntime, llmservice

KEY, SHARD = "ai/qwen", shard_of("ai", "qwen")


def same_shard(count: int) -> list[str]:
    """Names in namespace ai that fall into one shard."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        if shard_of("ai", f"m{number}") == SHARD:
            found.append(f"m{number}")
        number += 1
    return found


NAMES = same_shard(3)


class Receiver:
    """A gateway's copy of one shard, kept by the rules of the contract."""

    def __init__(self) -> None:
        self.version = 0
        self.services: dict[str, int] = {}

    def take(self, update: control.ShardUpdate | None) -> None:
        if update is None:
            return
        assert update.base_version in (0, self.version)
        if update.base_version == 0:
            self.services = {}
        for key in update.removed:
            self.services.pop(key, None)
        for service in update.services:
            self.services[f"{service.namespace}/{service.name}"] = service.generation
        self.version = update.version


@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.integers(0, 3), st.booleans()),
        max_size=40,
    )
)
def test_a_receiver_that_takes_updates_now_and_then_has_what_the_book_has(
    story: list[tuple[str, int, bool]],
) -> None:
    book, receiver, truth = RouteBook(), Receiver(), dict[str, int]()
    for name, generation, takes in story:
        if generation == 0:
            book.remove(f"ai/{name}")
            truth.pop(f"ai/{name}", None)
        else:
            book.put(control.Service(namespace="ai", name=name, generation=generation))
            truth[f"ai/{name}"] = generation
        if takes:
            receiver.take(book.update(SHARD, fleet="f", epoch=1, base=receiver.version))
            assert receiver.services == truth
    receiver.take(book.update(SHARD, fleet="f", epoch=1, base=receiver.version))
    assert receiver.services == truth
    assert book.update(SHARD, fleet="f", epoch=1, base=receiver.version) is None


def test_whoever_is_too_far_behind_gets_a_snapshot() -> None:
    book = RouteBook()
    base = book.version(SHARD)
    for _ in range(TOMBSTONES + 1):
        book.put(control.Service(namespace="ai", name=NAMES[0]))
        book.remove(f"ai/{NAMES[0]}")
    update = book.update(SHARD, fleet="f", epoch=1, base=base)
    assert update is not None
    assert (update.base_version, len(update.removed), len(update.services)) == (0, 0, 0)


def test_an_unchanged_service_makes_no_version() -> None:
    book = RouteBook()
    assert book.put(control.Service(namespace="ai", name="qwen")) == SHARD
    assert book.put(control.Service(namespace="ai", name="qwen")) is None


def test_the_oldest_service_has_a_contested_hostname_and_the_younger_is_told() -> None:
    claims = Claims()
    claims.declare("ai/young", ("2026-02-01T00:00:00Z", "b"), hostnames=["Chat.example.com"])
    assert claims.hostnames("ai/young") == ["chat.example.com"]
    assert claims.declare("ai/old", ("2026-01-01T00:00:00Z", "z"), hostnames=["chat.example.com"]) == {
        "ai/young"
    }
    assert claims.hostnames("ai/young") == []
    assert claims.hostnames("ai/old") == ["chat.example.com"]
    assert "chat.example.com belongs to ai/old" in (claims.conflicts("ai/young") or "")
    assert claims.conflicts("ai/old") is None
    assert claims.remove("ai/old") == {"ai/young"}
    assert claims.conflicts("ai/young") is None


def test_equal_ages_are_decided_by_uid() -> None:
    claims = Claims()
    claims.declare("ai/b", ("2026-01-01T00:00:00Z", "u2"), aliases=["chat"])
    claims.declare("ai/a", ("2026-01-01T00:00:00Z", "u1"), aliases=["chat"])
    assert (claims.aliases("ai/a"), claims.aliases("ai/b")) == (["chat"], [])


def test_an_alias_counts_in_its_own_namespace_only() -> None:
    claims = Claims()
    claims.declare("ai/a", ("1", "1"), aliases=["chat"])
    claims.declare("lab/b", ("2", "2"), aliases=["chat"])
    assert claims.aliases("lab/b") == ["chat"]


@pytest.mark.parametrize("host", ["qwen.ai", "qwen.ai.svc", "qwen.ai.svc.cluster.local"])
def test_nobody_takes_a_services_own_names(host: str) -> None:
    claims = Claims()
    claims.declare("lab/old", ("1", "1"), hostnames=[host])
    claims.declare("ai/thief", ("1", "2"), aliases=["qwen"])
    assert claims.declare("ai/qwen", ("9", "9")) == {"lab/old", "ai/thief"}
    assert claims.hostnames("lab/old") == []
    assert claims.aliases("ai/thief") == []


def service(**spec: Any) -> tuple[LLMService, ServiceModel]:
    body = llmservice(**spec)
    slim = LLMService(
        metadata=Metadata(name="qwen", namespace="ai", uid="u", creation_timestamp="2026-01-01T00:00:00Z"),
        spec=msgspec.Raw(msgspec.json.encode(body["spec"])),
        status=LLMServiceStatus(
            phase="Ready", conditions=[Condition(type="Degraded", status="True", reason="OOMKilled")]
        ),
    )
    return slim, ServiceModel.parse(body)


def pod(
    name: str,
    *,
    labels: Iterable[tuple[str, str]] = (("serving.noctaya.io/runtime", "vllm"),),
    **status: object,
) -> Pod:
    metadata = Metadata(name=name, namespace="ai", uid=name, labels=dict(labels))
    return Pod(metadata=metadata, status=PodStatus(**({"phase": "Running", "pod_ip": "10.0.0.1"} | status)))  # type: ignore[arg-type]


def test_a_route_carries_what_the_spec_says() -> None:
    slim, model = service(
        endpoint={
            "maxQueue": 5,
            "queueTimeout": "1.5s",
            "coldStart": {"mode": "reject", "heartbeatMode": "chunk"},
        }
    )
    runtime = RuntimeModel.parse(
        inferenceruntime(http={"paths": ["/v1/chat/completions"], "keepAlive": False})
    )
    access = Access(hostnames=["h"], aliases=["a"], digests=[("alice", b"x")])
    route = route_of(slim, model.spec, runtime.spec, [pod("p")], access)
    assert (route.max_queue, route.queue_timeout_ms, route.activation_timeout_ms) == (5, 1500, 300_000)
    assert (route.cold_start_mode, route.heartbeat_mode) == (control.REJECT, control.CHUNK)
    assert (list(route.inference_paths), route.http_keep_alive) == (["/v1/chat/completions"], False)
    assert (route.auth_required, route.keys[0].name, route.problem) == (True, "alice", "OOMKilled")
    assert route.created_at == 1767225600


def test_limits_beyond_the_wires_numbers_are_cut_to_them() -> None:
    slim, model = service(
        endpoint={"maxBodyBytes": 2**70, "queueTimeout": "2562047h"},
        scaling={"activationTimeout": "2562047h"},
    )
    route = route_of(slim, model.spec, None, [], Access())
    assert route.max_body_bytes == 2**63 - 1
    assert route.activation_timeout_ms == route.queue_timeout_ms == 2562047 * 3_600_000


def test_an_invalid_spec_is_told_without_endpoints_and_lets_nobody_in() -> None:
    slim, _ = service()
    route = route_of(slim, None, None, [pod("p")], Access())
    assert (route.auth_required, list(route.keys), list(route.endpoints)) == (True, [], [])


def test_only_backend_pods_with_an_address_are_endpoints() -> None:
    slim, model = service()
    runtime = RuntimeModel.parse(inferenceruntime())
    pods = [pod("ok"), pod("failed", phase="Failed"), pod("no-ip", pod_ip=""), pod("prewarm", labels=())]
    route = route_of(slim, model.spec, runtime.spec, pods, Access())
    assert [(found.pod, found.port) for found in route.endpoints] == [("ok", 8000)]


@pytest.mark.parametrize(
    ("health", "path"),
    [
        ({}, "/health"),
        ({"path": "/ready"}, "/ready"),
        ({"readiness": {"httpGet": {"port": "http", "path": "/r"}}}, "/r"),
        ({"readiness": {"httpGet": {"port": 8000}}}, "/"),
        ({"readiness": {"httpGet": {"port": 9999, "path": "/r"}}}, ""),
        ({"readiness": {"exec": {"command": ["true"]}}}, ""),
        ({"readiness": {"tcpSocket": {"port": 8000}}}, ""),
    ],
)
def test_the_health_path_is_the_declared_one_or_the_readiness_probes(
    health: dict[str, object], path: str
) -> None:
    assert health_path(RuntimeModel.parse(inferenceruntime(health=health)).spec) == path


def test_keys_are_digested_line_by_line_and_none_is_kept() -> None:
    digests = digests_of(b"s" * 32, b"key1\n\nalice key2\r\na b c\n")
    assert [who for who, _ in digests] == ["", "alice"]
    body = b'{"metadata":{"name":"n","namespace":"ai"},"data":{"keys":"YWxpY2UgczNjcmV0"}}'
    found = msgspec.json.decode(body, type=digesting(b"s" * 32))
    assert found.data == {}
    assert found.digests["keys"] == digests_of(b"s" * 32, b"alice s3cret")
    assert "s3cret" not in repr(found)
