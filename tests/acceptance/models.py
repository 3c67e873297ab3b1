"""Models that tests put to sleep and wake: manifests, and one handle per model to look at everything that it became.

The engine is the scripted one in a container: how fast it starts and answers is its runtime's environment. Runtimes are
cluster-wide, so each test's carry the name of its namespace.
"""

from dataclasses import dataclass
from typing import Any

from tests.acceptance.api import Api, Object
from tests.acceptance.waiting import until, until_equal

ENGINE = "vllm/vllm-openai:v0.11.0"
"""The name under which the node has the scripted engine: the one of docs/install.md."""
ACCELERATOR = "nvidia.com/gpu"
SERVICE_LABEL = "serving.noctaya.io/llmservice"
API_VERSION = "serving.noctaya.io/v1alpha1"

WAKE_SECONDS = 120.0
SLEEP_SECONDS = 120.0


def runtime(
    name: str,
    *,
    startup: str = "1s",
    tokens: int = 3,
    delay: str = "50ms",
    image: str = ENGINE,
    resource: str = ACCELERATOR,
    **spec: Any,
) -> Object:
    """An InferenceRuntime of the scripted engine; `spec` is laid over its spec.

    Args:
        startup: until the engine's health is good, after its process began.
        tokens: of an answer, where a request does not say `?tokens=N`.
        delay: before each token.
        resource: what its pods ask for; one that no node has keeps them unscheduled.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceRuntime",
        "metadata": {"name": name},
        "spec": {
            "family": "vllm",
            "vendor": "nvidia",
            "container": {
                "image": image,
                "env": [
                    {"name": "SCRIPTED_STARTUP_DELAY", "value": startup},
                    {"name": "SCRIPTED_TOKEN_COUNT", "value": str(tokens)},
                    {"name": "SCRIPTED_TOKEN_DELAY", "value": delay},
                ],
                "port": {"name": "http", "containerPort": 8000},
            },
            "accelerator": {"resourceName": resource},
            # A backend that ends at once saves a test half a minute; those about draining say otherwise.
            "lifecycle": {"terminationGracePeriodSeconds": 5},
            **spec,
        },
    }


def service(
    name: str,
    namespace: str,
    on: str,
    *,
    scaling: dict[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """An LLMService on the runtime `on`, quick to sleep and without a volume; `scaling` and `spec` are laid over that."""
    return {
        "apiVersion": API_VERSION,
        "kind": "LLMService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "model": {"source": {"uri": "hf://example/scripted"}},
            "runtime": {"name": on},
            "cache": {"strategy": "None"},
            "scaling": {
                "min": 0,
                "max": 1,
                "activationTimeout": "2m",
                # Polled every 5 s then, the shortest that there is; twice that is the shortest calm sleep.
                "scaleDownStabilization": "10s",
                **(scaling or {}),
            },
            **spec,
        },
    }


@dataclass(frozen=True, slots=True)
class Model:
    """One LLMService and what it became."""

    api: Api
    namespace: str
    name: str

    @property
    def model(self) -> str:
        """What clients write into the field `model`."""
        return f"{self.namespace}/{self.name}"

    @property
    def host(self) -> str:
        """The host by which pods of the cluster reach it."""
        return f"{self.name}.{self.namespace}.svc"

    @property
    def selector(self) -> str:
        """Selects its backend pods."""
        return f"{SERVICE_LABEL}={self.name}"

    async def read(self) -> Object:
        """The LLMService itself."""
        return await self.api.get("llmservices", self.name, self.namespace)

    async def patch(self, **spec: Any) -> Object:
        """Change its spec."""
        return await self.api.patch("llmservices", self.name, {"spec": spec}, self.namespace)

    async def phase(self) -> str:
        """`status.phase`; empty while there is none."""
        phase: str = (await self.read()).get("status", {}).get("phase", "")
        return phase

    async def condition(self, kind: str) -> Object:
        """A condition of it; empty while there is none."""
        return condition_of(await self.read(), kind)

    async def replicas(self) -> int | None:
        """`spec.replicas` of its Deployment: what KEDA wants. None while there is no Deployment."""
        found = await self.api.find("deployments", self.name, self.namespace)
        return None if found is None else int(found["spec"]["replicas"])

    async def pods(self) -> list[Object]:
        """Its backend pods, terminating ones too."""
        return await self.api.list("pods", self.namespace, selector=self.selector)

    async def ready_pods(self) -> list[Object]:
        """Its backend pods that serve."""
        return [pod for pod in await self.pods() if is_ready(pod)]

    async def scaled_object(self) -> Object:
        """Its ScaledObject."""
        return await self.api.get("scaledobjects", self.name, self.namespace)

    async def trigger(self) -> Object:
        """Its ScaledObject's only trigger; empty while there is none."""
        found = await self.api.find("scaledobjects", self.name, self.namespace)
        if found is None:
            return {}
        (trigger,) = found["spec"]["triggers"]
        return dict(trigger)

    async def until_condition(
        self, kind: str, status: str, seconds: float, *, reason: str | None = None
    ) -> Object:
        """Wait for a condition that speaks of the newest spec; gives it."""

        async def claim() -> Object | None:
            whole = await self.read()
            found = condition_of(whole, kind)
            is_current = found.get("observedGeneration") == whole["metadata"]["generation"]
            is_wanted = found.get("status") == status and reason in {None, found.get("reason")}
            return found if is_current and is_wanted else None

        said = f"{kind}={status}" + (f"/{reason}" if reason else "")
        return await until(claim, seconds, f"{self.model} says {said}")

    async def until_usable(self, seconds: float = WAKE_SECONDS) -> None:
        """Wait until KEDA has taken it and its name leads to it: from now on a request wakes it."""
        await self.until_condition("AutoscalingReady", "True", seconds)
        await self.until_condition("EndpointReady", "True", seconds)

    async def until_replicas(self, count: int, seconds: float) -> None:
        """Wait until KEDA wants this many."""
        await until_equal(self.replicas, count, seconds, f"{self.model} has {count} replicas wanted")

    async def until_ready(self, count: int, seconds: float = WAKE_SECONDS) -> list[Object]:
        """Wait until exactly this many pods serve; gives them."""

        async def claim() -> list[Object]:
            found = await self.ready_pods()
            return found if len(found) == count else []

        return await until(claim, seconds, f"{count} pods of {self.model} serve")

    async def until_asleep(self, seconds: float = SLEEP_SECONDS) -> None:
        """Wait until it has neither replicas nor pods and says so."""
        await self.until_replicas(0, seconds)

        async def pods() -> list[str]:
            return [pod["metadata"]["name"] for pod in await self.pods()]

        await until_equal(pods, [], seconds, f"{self.model} has no pod")
        await until_equal(self.phase, "ScaledToZero", seconds, f"{self.model} says that it sleeps")


def condition_of(whole: Object, kind: str) -> Object:
    """A condition of any object; empty when it has none of that type."""
    conditions: list[Object] = whole.get("status", {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), {})


def is_ready(pod: Object) -> bool:
    """The pod serves and is not on its way out."""
    return condition_of(pod, "Ready").get("status") == "True" and "deletionTimestamp" not in pod["metadata"]
