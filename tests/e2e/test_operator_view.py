"""What an operator sees with kubectl."""

import json

from tests.e2e.cluster import EmbeddedCluster
from tests.e2e.scripted import manifest, scripted_runtime, scripted_service


def test_services_are_listed_with_phase_runtime_and_replicas(cluster: EmbeddedCluster) -> None:
    lines = cluster.kubectl("get", "llmservices", "-A").stdout.splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "PHASE", "RUNTIME", "REPLICAS", "AGE"]
    assert any(line.split()[:2] == ["ai", "smollm2"] and "llamacpp-cpu" in line for line in lines[1:])


def test_describe_shows_conditions_and_events(cluster: EmbeddedCluster) -> None:
    shown = cluster.kubectl("describe", "llmservice", "smollm2", "-n", "ai").stdout
    for word in ("AutoscalingReady", "Ready", "Degraded", "Observed Generation", "Events:"):
        assert word in shown


def test_children_carry_the_services_label_and_are_owned_by_it(cluster: EmbeddedCluster) -> None:
    uid = cluster.get("llmservices", "smollm2")["metadata"]["uid"]
    for kind, name in (
        ("deployments", "smollm2"), ("services", "smollm2"), ("services", "smollm2-backend"), ("scaledobjects", "smollm2"),
    ):  # fmt: skip
        child = cluster.get(kind, name)
        assert child["metadata"]["labels"]["serving.noctaya.io/llmservice"] == "smollm2"
        assert [owner["uid"] for owner in child["metadata"]["ownerReferences"]] == [uid]


def test_an_unknown_image_shows_as_degraded_with_one_event_and_heals_when_it_is_mended(
    cluster: EmbeddedCluster,
) -> None:
    runtime = scripted_runtime("unpullable")
    runtime["spec"]["container"]["image"] = "example.invalid/nothing:1"
    cluster.kubectl(
        "apply", "-f", "-",
        stdin=manifest(
            runtime, scripted_service("unpullable", "unpullable", scaling={"min": 1, "max": 1, "activationTimeout": "60s"})
        ),
    )  # fmt: skip

    def degraded() -> dict[str, str]:
        conditions = cluster.get("llmservices", "unpullable").get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == "Degraded"), {})

    cluster.wait(lambda: degraded().get("reason") == "ImagePullFailed", 20)
    cluster.kubectl("apply", "-f", "-", stdin=manifest(scripted_runtime("unpullable")))
    cluster.wait(lambda: cluster.phase("unpullable") == "Ready" and degraded().get("status") == "False", 30)
    events = json.loads(
        cluster.kubectl(
            "get",
            "events",
            "-n",
            "ai",
            "--field-selector",
            "involvedObject.name=unpullable,reason=ImagePullFailed",
            "-o",
            "json",
        ).stdout
    )
    assert len(events["items"]) == 1
    cluster.kubectl("delete", "llmservice", "unpullable", "-n", "ai")
    cluster.wait(lambda: not cluster.items("pods", "ai", "serving.noctaya.io/llmservice=unpullable"), 20)
    cluster.kubectl("delete", "inferenceruntime", "unpullable")


def test_an_image_change_never_wakes_a_sleeping_model(cluster: EmbeddedCluster) -> None:
    cluster.kubectl(
        "apply", "-f", "-", stdin=manifest(scripted_runtime("asleep"), scripted_service("asleep", "asleep"))
    )
    cluster.wait_asleep("asleep")
    before = cluster.get("deployments", "asleep")["metadata"]["generation"]
    changed = scripted_runtime("asleep")
    changed["spec"]["container"]["image"] = "noctaya/scripted:other"
    cluster.kubectl("apply", "-f", "-", stdin=manifest(changed))
    cluster.wait(
        lambda: cluster.get("deployments", "asleep")["spec"]["template"]["spec"]["containers"][0][
            "image"
        ].endswith(":other"),
        15,
    )
    after = cluster.get("deployments", "asleep")
    assert after["metadata"]["generation"] == before + 1
    assert after["spec"]["replicas"] == 0
    assert not cluster.items("pods", "ai", "serving.noctaya.io/llmservice=asleep")
    cluster.kubectl("delete", "llmservice", "asleep", "-n", "ai")
    cluster.kubectl("delete", "inferenceruntime", "asleep")
