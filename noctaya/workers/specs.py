"""Specs as models, parsed once for every (uid, generation) and kept in a bounded memory, least recently used out first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from noctaya.api.conditions import Reason
from noctaya.api.errors import InvalidSpec
from noctaya.api.inferenceruntime import InferenceRuntime as RuntimeModel
from noctaya.api.inferenceruntime import InferenceRuntimeSpec
from noctaya.api.llmservice import LLMService as ServiceModel
from noctaya.api.llmservice import LLMServiceSpec
from noctaya.kube.objects import Object
from noctaya.workers.errors import SpecProblem
from noctaya.workers.objects import InferenceRuntime, LLMService

T = TypeVar("T")


class _Memory(Generic[T]):
    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._parsed: OrderedDict[tuple[str, int], T] = OrderedDict()

    def get(self, about: Object, parse: Callable[[], T]) -> T:
        key = (about.metadata.uid, about.metadata.generation)
        if key in self._parsed:
            self._parsed.move_to_end(key)
            return self._parsed[key]
        parsed = self._parsed[key] = parse()
        while len(self._parsed) > self._capacity:
            self._parsed.popitem(last=False)
        return parsed


class Specs:
    """The parsed specs of services and runtimes. An invalid one is not remembered: it is rare, and cheap to fail again."""

    def __init__(self, services: int = 1024, runtimes: int = 64) -> None:
        self._services: _Memory[LLMServiceSpec] = _Memory(services)
        self._runtimes: _Memory[InferenceRuntimeSpec] = _Memory(runtimes)

    def service(self, service: LLMService) -> LLMServiceSpec:
        """The spec of `service`. Raises SpecProblem (InvalidSpec), naming the fields."""
        return self._services.get(
            service, lambda: _parsed(ServiceModel.parse, service, service.spec, Reason.INVALID_SPEC).spec
        )

    def runtime(self, runtime: InferenceRuntime) -> InferenceRuntimeSpec:
        """The spec of `runtime`. Raises SpecProblem (RuntimeResolution), naming the fields."""
        return self._runtimes.get(
            runtime,
            lambda: _parsed(RuntimeModel.parse, runtime, runtime.spec, Reason.RUNTIME_RESOLUTION).spec,
        )


def _parsed(parse: Callable[[dict[str, Any]], T], about: Object, spec: msgspec.Raw, reason: Reason) -> T:
    metadata = {"name": about.name, "namespace": about.namespace}
    try:
        return parse({"metadata": metadata, "spec": msgspec.json.decode(spec)})
    except InvalidSpec as error:
        raise SpecProblem(reason, str(error)) from error
