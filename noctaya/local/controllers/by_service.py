"""What the controllers that are keyed by Service share: a Service's change, or one of its slices', asks for that Service."""

from noctaya.kube import Change
from noctaya.local.controllers.loop import Controller
from noctaya.local.controllers.records import Record, SliceRecord
from noctaya.local.controllers.view import SERVICE_LABEL, ClusterView


class ServiceController(Controller):
    """A controller keyed by Service."""

    def __init__(self, view: ClusterView) -> None:
        super().__init__()
        self._view = view
        view.services.subscribe(self._service_changed)
        view.slices.subscribe(self._slice_changed)

    def _service_changed(self, change: Change[Record]) -> None:
        record = change.new or change.old
        if record is not None:
            self.enqueue(record.namespace, record.name)

    def _slice_changed(self, change: Change[SliceRecord]) -> None:
        record = change.new or change.old
        name = record.metadata.labels.get(SERVICE_LABEL) if record is not None else None
        if record is not None and name:
            self.enqueue(record.namespace, name)
