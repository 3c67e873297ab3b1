"""cert-manager makes what the leader would make: the same Secrets, for the same roles and names."""

from pathlib import Path

import pytest

from noctaya.leader.certificate_reading import AUTHORITY_SECRET, LEAF_SECRETS
from noctaya.wire.identity import WORKER_NAME, Role, identity_uri
from tests.deploy.manifests import NAMESPACE, Object, of_kind, with_components

pytestmark = pytest.mark.kubectl


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    return with_components(Path(tmp_path_factory.mktemp("cert-manager")), "cert-manager")


@pytest.mark.parametrize("role", Role)
def test_a_roles_certificate_is_the_one_that_the_leader_would_make(objects: list[Object], role: Role) -> None:
    spec = next(
        found["spec"]
        for found in of_kind(objects, "Certificate").values()
        if found["spec"]["secretName"] == LEAF_SECRETS[role]
    )
    assert spec["uris"] == [identity_uri(NAMESPACE, role)]
    assert spec.get("dnsNames", []) == ([WORKER_NAME] if role is Role.WORKER else [])
    assert ("server auth" in spec["usages"]) is (role is Role.WORKER)
    assert "client auth" in spec["usages"]
    assert spec["issuerRef"]["name"] == "noctaya-control"


def test_the_ca_keeps_its_key_and_is_not_the_leaders_secret(objects: list[Object]) -> None:
    certificates = of_kind(objects, "Certificate")
    (authority,) = [found["spec"] for found in certificates.values() if found["spec"].get("isCA")]
    assert authority["privateKey"]["rotationPolicy"] == "Never"
    assert (
        authority["secretName"] == of_kind(objects, "Issuer")["noctaya-control"]["spec"]["ca"]["secretName"]
    )
    assert authority["secretName"] != AUTHORITY_SECRET


def test_workers_are_told_that_others_keep_the_certificates(objects: list[Object]) -> None:
    worker = of_kind(objects, "Deployment")["noctaya-worker"]["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "NOCTAYA_TLS__KEPT_BY", "value": "others"} in worker["env"]
