"""A cold start as a waterfall: which step ended when, counted from the request's arrival, for a terminal or a machine.

Pure: steps in, text or JSON out. Times are seconds on one clock (CLOCK_BOOTTIME); every process of the embedded cluster is
on the same machine, so the clocks agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BAR_WIDTH = 36

STEPS: tuple[tuple[str, str], ...] = (
    ("arrival", "the request reaches a gateway"),
    ("demand", "the worker knows of it"),
    ("push", "the worker pushes `true` to KEDA"),
    ("replicas", "KEDA sets spec.replicas to 1"),
    ("process", "the node starts the engine's process"),
    ("ready", "the engine answers its health check"),
    ("forwarded", "the gateway sends the held request on"),
    ("first byte", "the client reads the answer's first byte"),
)
"""Names and what each means, in the order in which they happen."""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """When each step of one cold start ended, in seconds after the arrival; a step that nobody saw is missing."""

    offsets: Mapping[str, float]
    model_seconds: float | None
    """From the start of the engine's process to its first healthy answer, as the engine itself measured: the model's own
    load time. None when the engine did not say."""

    @classmethod
    def of(cls, moments: Mapping[str, float], model_seconds: float | None) -> "Waterfall":
        """Build from absolute `moments` (step → seconds on one clock); `arrival` is required."""
        start = moments["arrival"]
        return cls({name: moments[name] - start for name, _ in STEPS if name in moments}, model_seconds)

    @property
    def total_seconds(self) -> float:
        """Arrival to first byte."""
        return self.offsets["first byte"]

    @property
    def beyond_load_seconds(self) -> float | None:
        """The total less the model's own load: the control plane and the model's first token."""
        return None if self.model_seconds is None else self.total_seconds - self.model_seconds

    @property
    def first_token_seconds(self) -> float | None:
        """From the request's arrival at the engine to the answer's first byte: the model reads the prompt."""
        return self.total_seconds - self.offsets["forwarded"] if "forwarded" in self.offsets else None

    @property
    def control_plane_seconds(self) -> float | None:
        """What is ours: the total less the model's own load and its first token."""
        if self.beyond_load_seconds is None or self.first_token_seconds is None:
            return None
        return self.beyond_load_seconds - self.first_token_seconds

    def lines(self) -> list[str]:
        """The waterfall as plain text, a step a line, with a bar from the previous step's end to its own."""
        total = max(self.total_seconds, 1e-9)
        rows, before = [], 0.0
        for name, meaning in STEPS:
            if name not in self.offsets:
                continue
            end = self.offsets[name]
            rows.append(f"  {name:11} {end * 1000:8.0f} ms  {_bar(before / total, end / total)}  {meaning}")
            before = max(before, end)
        if self.control_plane_seconds is not None:
            rows.append(
                f"  total {self.total_seconds:.2f} s = the model's load {self.model_seconds:.2f} s"
                f" + its first token {self.first_token_seconds:.2f} s + control plane {self.control_plane_seconds:.2f} s"
            )
        elif self.beyond_load_seconds is not None:
            rows.append(
                f"  total {self.total_seconds:.2f} s = the model's load {self.model_seconds:.2f} s + {self.beyond_load_seconds:.2f} s"
                " for its first token and the control plane; the load outlasted the first heartbeat, and a gateway can"
                " tell its own times only before that"
            )
        return rows

    def as_json(self) -> dict[str, object]:
        """Offsets in seconds and the two sums, for `--json`."""
        return {
            "offsetsSeconds": {name: round(value, 4) for name, value in self.offsets.items()},
            "totalSeconds": round(self.total_seconds, 4),
            "modelLoadSeconds": _rounded(self.model_seconds),
            "firstTokenSeconds": _rounded(self.first_token_seconds),
            "controlPlaneSeconds": _rounded(self.control_plane_seconds),
        }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def _bar(start: float, end: float) -> str:
    first = min(BAR_WIDTH, max(0, round(start * BAR_WIDTH)))
    last = min(BAR_WIDTH, max(first, round(end * BAR_WIDTH)))
    return " " * first + ("█" * (last - first) or "▏") + " " * (BAR_WIDTH - last)


def missing(waterfall: Waterfall) -> Sequence[str]:
    """Steps that nobody saw."""
    return [name for name, _ in STEPS if name not in waterfall.offsets]
