"""The leader's shell around the certificate Secrets: what is in them in the end, who may write, and what it says."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from noctaya.kube import Client
from noctaya.kube.config import ClusterConfig
from noctaya.kube.errors import Forbidden, Unavailable
from noctaya.kube.objects import Metadata, Secret
from noctaya.kube.resources import NAMESPACES, SECRETS
from noctaya.leader.certificate_keeping import WRITES_IN_A_ROW, CertificateKeeping
from noctaya.leader.certificate_reading import (
    AUTHORITY_SECRET,
    CERT_MANAGER,
    KEPT_BY_LEADER,
    LABEL_KEPT_BY,
    LEAF_SECRETS,
    NEXT_CERTIFICATE,
    NEXT_KEY,
    read,
)
from noctaya.leader.certificates import CertificateTiming
from noctaya.local.apiserver import ApiServer
from noctaya.wire.identity import Role
from noctaya.wire.material import AUTHORITIES, CERTIFICATE, KEY, Material
from tests.leader.secret_server import SecretServer
from tests.wire.fleet_material import NAMESPACE, Issuer, is_secret_free

TIMING = CertificateTiming(authority=4000.0, leaf=900.0, overlap=100.0, look_every=10.0)
WORKER_SECRET, GATEWAY_SECRET = LEAF_SECRETS[Role.WORKER], LEAF_SECRETS[Role.GATEWAY]
OURS = {LABEL_KEPT_BY: KEPT_BY_LEADER}


@dataclass
class Kept:
    """A keeper with a clock of its own."""

    server: SecretServer = field(default_factory=SecretServer)
    may_write: bool = True
    passed: float = 0.0

    def __post_init__(self) -> None:
        start = time.time()
        self.keeping = CertificateKeeping(
            cast("Client", self.server),
            NAMESPACE,
            may_write=lambda: self.may_write,
            timing=TIMING,
            clock=lambda: self.passed,
            wall=lambda: start + self.passed,
        )

    async def settle(self) -> None:
        """Look until nothing is left to write just now."""
        for _ in range(WRITES_IN_A_ROW + 2):
            if await self.keeping.look() > 0:
                return
        raise AssertionError("it writes without end")

    async def run(self, seconds: float) -> None:
        end = self.passed + seconds
        while self.passed < end:
            await self.settle()
            self.passed += 10.0

    def material(self, role: Role) -> Material:
        data = self.server.secrets[LEAF_SECRETS[role]].data
        return Material(data[CERTIFICATE], data[KEY], data[AUTHORITIES])

    def everything(self) -> list[Material]:
        authority = self.server.secrets[AUTHORITY_SECRET].data
        return [self.material(role) for role in Role] + [Material(b"", authority[KEY], b"")]


async def test_a_new_fleet_gets_three_secrets_that_fit_together() -> None:
    kept = Kept()
    await kept.settle()
    assert kept.server.writes == [
        ("create", AUTHORITY_SECRET),
        ("create", WORKER_SECRET),
        ("create", GATEWAY_SECRET),
    ]
    secrets = kept.server.secrets
    seen, _ = read(
        secrets[AUTHORITY_SECRET], {role: secrets[name] for role, name in LEAF_SECRETS.items()}, NAMESPACE
    )
    assert seen.authority is not None
    assert seen.authority.current is not None
    for role in Role:
        kept.material(role).check()
        leaf = seen.leaves[role]
        assert leaf is not None
        assert leaf.is_ours
        assert (leaf.issuer, leaf.bundle) == (seen.authority.current.id, (seen.authority.current.id,))
    assert kept.keeping.problems == ()


async def test_no_private_key_is_in_any_other_secret_than_its_own() -> None:
    kept = Kept()
    await kept.run(TIMING.authority + 3 * TIMING.overlap)
    keys = [secret.data[KEY] for secret in kept.server.secrets.values()]
    assert len(set(keys)) == 3
    for name, secret in kept.server.secrets.items():
        whole = b"".join(secret.data.values())
        assert whole.count(b"PRIVATE KEY-----") == 2, name  # one BEGIN, one END
    assert set(kept.server.secrets[AUTHORITY_SECRET].data) == {CERTIFICATE, KEY}


async def test_the_old_cas_key_is_gone_once_the_new_one_signs() -> None:
    kept = Kept()
    await kept.settle()
    old = kept.server.secrets[AUTHORITY_SECRET].data[KEY]
    await kept.run(TIMING.authority * TIMING.renew_at + 20)
    both = kept.server.secrets[AUTHORITY_SECRET].data
    assert set(both) == {CERTIFICATE, KEY, NEXT_CERTIFICATE, NEXT_KEY}
    assert both[KEY] == old
    await kept.run(TIMING.overlap + 20)
    after = kept.server.secrets[AUTHORITY_SECRET].data
    assert after == {CERTIFICATE: both[NEXT_CERTIFICATE], KEY: both[NEXT_KEY]}


async def test_no_key_stands_in_any_log_line(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    with caplog.at_level(logging.DEBUG):
        await kept.settle()
        first = kept.everything()
        await kept.run(TIMING.authority)
        kept.server.put(
            WORKER_SECRET,
            Secret(metadata=Metadata(name=WORKER_SECRET), data={CERTIFICATE: b"", KEY: first[0].key}),
        )
        await kept.settle()
    told = str([record.__dict__ for record in caplog.records]) + "".join(kept.keeping.problems)
    assert "certificates written" in told
    assert "was not made by Noctaya" in told
    assert is_secret_free(told, *first)


async def test_labels_and_annotations_of_people_stay() -> None:
    kept = Kept()
    await kept.settle()
    found = kept.server.secrets[WORKER_SECRET]
    metadata = msgspec.structs.replace(found.metadata, annotations={"team": "ml"}, labels={**OURS, "a": "b"})
    kept.server.put(WORKER_SECRET, msgspec.structs.replace(found, metadata=metadata))
    await kept.run(TIMING.leaf)
    after = kept.server.secrets[WORKER_SECRET]
    assert after.data != found.data
    assert after.metadata.annotations == {"team": "ml"}
    assert after.metadata.labels == {**OURS, "a": "b"}


# -- who may write -----------------------------------------------------------------------------------------------------


async def test_a_worker_that_does_not_lead_reads_and_writes_nothing() -> None:
    kept = Kept(may_write=False)
    task = asyncio.create_task(kept.keeping.run())
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (kept.server.reads, kept.server.writes) == (0, [])


async def test_who_loses_the_leadership_between_two_writes_does_not_make_the_second_one() -> None:
    kept = Kept()
    await kept.keeping.look()  # the CA
    kept.server.on_write = lambda: setattr(kept, "may_write", False)
    await kept.keeping.look()  # two leaves are planned
    assert kept.server.writes == [("create", AUTHORITY_SECRET), ("create", WORKER_SECRET)]


async def test_of_two_leaders_that_both_believe_it_one_founds_and_the_other_follows() -> None:
    server = SecretServer()
    one, other = Kept(server), Kept(server)
    for _ in range(6):
        await asyncio.gather(one.keeping.look(), other.keeping.look())
    assert len(server.writes) == 3
    assert one.keeping.problems == other.keeping.problems == ()


async def test_a_write_that_meets_another_one_is_planned_anew() -> None:
    kept = Kept()
    await kept.settle()
    await kept.run(TIMING.leaf * TIMING.renew_at - 20)
    touched = kept.server.secrets[WORKER_SECRET]
    kept.passed += 40.0
    kept.server.on_write = lambda: kept.server.put(WORKER_SECRET, touched)
    await kept.keeping.look()
    assert kept.server.secrets[WORKER_SECRET].data == touched.data
    assert kept.keeping.problems == ()
    kept.server.on_write = lambda: None
    await kept.settle()
    assert kept.server.secrets[WORKER_SECRET].data != touched.data


# -- what goes wrong ---------------------------------------------------------------------------------------------------


async def test_a_right_that_is_missing_is_named() -> None:
    kept = Kept()
    kept.server.refusal = Forbidden
    assert await kept.keeping.look() > 0
    (problem,) = kept.keeping.problems
    assert f"create secrets {NAMESPACE}/{AUTHORITY_SECRET}" in problem
    kept.server.refusal = None
    await kept.settle()
    assert kept.keeping.problems == ()


async def test_an_api_server_that_is_down_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    kept.server.refusal = Unavailable
    for _ in range(3):
        assert await kept.keeping.look() > 0
    assert [record.message for record in caplog.records].count("certificates") == 1, "told once"
    kept.server.refusal = None
    await kept.settle()
    assert len(kept.server.writes) == 3


async def test_who_undoes_every_write_is_a_problem_and_not_fought_hot() -> None:
    kept = Kept()
    await kept.settle()
    spoilt = msgspec.structs.replace(kept.server.secrets[WORKER_SECRET], data={})
    kept.server.put(WORKER_SECRET, spoilt)
    plain = kept.server._store
    kept.server._store = lambda name, secret: plain(name, spoilt)  # type: ignore[method-assign]
    waits = [await kept.keeping.look() for _ in range(WRITES_IN_A_ROW + 1)]
    assert waits[:-1] == [0.0] * WRITES_IN_A_ROW
    assert waits[-1] > 0
    assert any("undoes" in problem for problem in kept.keeping.problems)


def theirs(issuer: Issuer, role: Role, **metadata: Any) -> Secret:
    material = issuer.material(role)
    data = {CERTIFICATE: material.certificate, KEY: material.key, AUTHORITIES: material.authorities}
    return Secret(metadata=Metadata(name=LEAF_SECRETS[role], **metadata), data=data)


@pytest.mark.parametrize(
    "metadata",
    [{}, {"labels": OURS, "annotations": {CERT_MANAGER: "noctaya-worker"}}],
    ids=["no label", "cert-manager"],
)
async def test_what_others_made_is_never_written(metadata: dict[str, Any]) -> None:
    kept, issuer = Kept(), Issuer()
    for role, name in LEAF_SECRETS.items():
        kept.server.put(name, theirs(issuer, role, **metadata))
    before = dict(kept.server.secrets)
    await kept.run(100.0)
    assert kept.server.secrets == before
    assert kept.keeping.problems == ()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: {**data, CERTIFICATE: b"x"},
        lambda data: {**data, KEY: b"x"},
        lambda data: {},
        lambda data: {**data, AUTHORITIES: b"x"},
        lambda data: {**data, **_leaf_of(Issuer(), Role.WORKER)},
    ],
    ids=["certificate", "key", "empty", "bundle", "foreign CA"],
)
async def test_garbage_in_a_secret_of_ours_is_made_anew(spoil: Any) -> None:
    kept = Kept()
    await kept.settle()
    good = kept.server.secrets[WORKER_SECRET]
    kept.server.put(WORKER_SECRET, msgspec.structs.replace(good, data=spoil(good.data)))
    await kept.settle()
    kept.material(Role.WORKER).check()
    assert kept.material(Role.WORKER).authorities == good.data[AUTHORITIES]


async def test_a_certificate_for_the_wrong_role_is_garbage() -> None:
    kept = Kept()
    await kept.settle()
    good, other = kept.server.secrets[WORKER_SECRET], kept.server.secrets[GATEWAY_SECRET]
    kept.server.put(WORKER_SECRET, msgspec.structs.replace(good, data=other.data))
    await kept.settle()
    assert kept.server.secrets[WORKER_SECRET].data[CERTIFICATE] not in (
        other.data[CERTIFICATE],
        good.data[CERTIFICATE],
    )


async def test_a_ca_of_ours_that_is_garbage_is_made_anew_and_the_leaves_follow() -> None:
    kept = Kept()
    await kept.settle()
    good = kept.server.secrets[AUTHORITY_SECRET]
    kept.server.put(AUTHORITY_SECRET, msgspec.structs.replace(good, data={CERTIFICATE: b"x"}))
    await kept.run(3 * TIMING.overlap)
    now = kept.server.secrets[AUTHORITY_SECRET].data[CERTIFICATE]
    assert now != good.data[CERTIFICATE]
    assert {kept.material(role).authorities for role in Role} == {now}


async def test_a_leaf_that_is_no_ca_signs_nothing() -> None:
    kept, issuer = Kept(), Issuer()
    leaf = issuer.material(Role.WORKER)
    kept.server.put(AUTHORITY_SECRET, Secret(data={CERTIFICATE: leaf.certificate, KEY: leaf.key}))
    await kept.settle()
    (problem,) = kept.keeping.problems
    assert "is not a CA's" in problem
    assert set(kept.server.secrets) == {AUTHORITY_SECRET}


def _leaf_of(issuer: Issuer, role: Role) -> dict[str, bytes]:
    material = issuer.material(role)
    return {CERTIFICATE: material.certificate, KEY: material.key}


# -- a real API server -------------------------------------------------------------------------------------------------


async def test_an_api_server_takes_what_is_written(tmp_path: Path) -> None:
    async with (
        ApiServer() as server,
        Client(
            ClusterConfig.load(str(server.kubeconfig(tmp_path / "config"))), field_validation="Strict"
        ) as client,
    ):
        await client.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
        leading = CertificateKeeping(client, NAMESPACE, may_write=lambda: True)
        task = asyncio.create_task(leading.run())
        try:
            async with asyncio.timeout(30):
                while leading.written < 3:  # noqa: ASYNC110 - a condition of another task
                    await asyncio.sleep(0.01)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        found = await client.get(SECRETS, NAMESPACE, WORKER_SECRET, into=Secret)
        assert found.type == "kubernetes.io/tls"
        Material(found.data[CERTIFICATE], found.data[KEY], found.data[AUTHORITIES]).check()
        # And what is there is changed upon its version: the bundle gets a second CA.
        assert leading.problems == ()
        spoilt = msgspec.structs.replace(found, data={**found.data, CERTIFICATE: b"x"})
        await client.replace(SECRETS, NAMESPACE, WORKER_SECRET, msgspec.to_builtins(spoilt))
        while await leading.look() == 0.0:
            pass
        mended = await client.get(SECRETS, NAMESPACE, WORKER_SECRET, into=Secret)
        Material(mended.data[CERTIFICATE], mended.data[KEY], mended.data[AUTHORITIES]).check()
        assert mended.metadata.uid == found.metadata.uid
