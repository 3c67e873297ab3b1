"""The cases of the golden files; run as a program, it writes the files anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml

from noctaya.kube.objects import Metadata
from noctaya.workers.models import resolve
from noctaya.workers.objects import InferenceRuntime, LLMService
from noctaya.workers.render import Children, Fleet, render
from noctaya.workers.specs import Specs
from tests.api.samples import inferenceruntime, llmservice

FOLDER = Path(__file__).parent / "golden"
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nvidia-minimal": (llmservice(), inferenceruntime()),
    "ascend-full": (
        llmservice(
            model={"source": {"uri": "modelscope://Qwen/Qwen3-8B"}},
            runtime={"selector": {"vendor": ["ascend"]}, "argsOverride": ["--max-model-len=8192"]},
            resources={"accelerators": 2, "cpu": "8", "memory": "64Gi"},
            scaling={
                "min": 1,
                "max": 4,
                "target": 3,
                "scaleDownStabilization": "20s",
                "drainTimeout": "1.5s",
            },
            cache={"strategy": "SharedPVC", "size": "200Gi", "storageClassName": "nfs"},
            imagePullSecrets=[{"name": "registry"}],
        ),
        inferenceruntime(
            vendor="ascend",
            container={
                "image": "ascend/vllm:0.11",
                "args": [
                    "serve",
                    "{{ .Model.Path }}",
                    "--served-model-name={{ .Service.Namespace }}/{{ .Service.Name }}",
                ],
                "env": [
                    {"name": "NAME", "value": "{{ .Service.Name }}"},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
                ],
                "port": {"name": "api", "containerPort": 9000},
            },
            accelerator={
                "resourceName": "huawei.com/Ascend910",
                "nodeSelector": {"accelerator": "ascend"},
                "tolerations": [{"key": "npu", "operator": "Exists", "effect": "NoSchedule"}],
                "scheduler": {"name": "volcano", "queue": "inference"},
            },
            health={
                "startup": {
                    "httpGet": {"path": "/health", "port": "api"},
                    "periodSeconds": 10,
                    "failureThreshold": 180,
                },
                "liveness": {"httpGet": {"path": "/health", "port": "api"}, "periodSeconds": 30},
            },
            lifecycle={"preStopDrain": True, "terminationGracePeriodSeconds": 5},
        ),
    ),
    "cpu-pvc": (
        llmservice(
            "smol",
            model={"source": {"uri": "pvc://weights/smollm2"}},
            scaling={"scaleDownStabilization": "0s"},
        ),
        inferenceruntime(
            "llamacpp",
            family="llamacpp",
            vendor="cpu",
            accelerator={},
            container={"image": "noctaya/llamacpp", "args": ["--model", "{{ .Model.Path }}/model.gguf"]},
            health={"path": "/ready"},
        ),
    ),
}


def rendering(
    service: dict[str, Any], runtime: dict[str, Any], *, namespace: str = "ai", revision: int = 0
) -> Children:
    """The children of an LLMService on an InferenceRuntime, both as a manifest would have them."""
    live = LLMService(
        metadata=Metadata(
            name=service["metadata"]["name"], namespace=namespace, uid="11111111-2222", generation=1
        ),
        spec=msgspec.Raw(json.dumps(service["spec"]).encode()),
    )
    chosen = InferenceRuntime(
        metadata=Metadata(name=runtime["metadata"]["name"], uid="33333333-4444"),
        spec=msgspec.Raw(json.dumps(runtime["spec"]).encode()),
    )
    specs = Specs()
    spec = specs.service(live)
    source = spec.model.source
    assert source is not None
    model = resolve(source.uri, secret=source.secret_ref.name if source.secret_ref is not None else None)
    return render(live, spec, chosen.name, specs.runtime(chosen), model, Fleet(), revision=revision)


def rendered(case: str) -> list[dict[str, Any]]:
    """The children of a case, in the order in which they are applied."""
    return [json.loads(json.dumps(child.body)) for child in rendering(*CASES[case]).in_order()]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        (FOLDER / f"{case}.yaml").write_text(yaml.safe_dump(rendered(case), sort_keys=False, width=110))


if __name__ == "__main__":
    main()
