"""Which spans the sampler leaves out, known without asking the SDK.

A span that is left out costs the SDK a tenth of a fetch and more: it makes ids and a context that
have no reader. The samplers of the SDK itself follow rules that are known beforehand, so this asks
the SDK only for the spans that are sampled, and for all of them where the sampler is another one.
"""

from __future__ import annotations

import copy
import os
import random
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider

__all__ = ["Sampling"]

_SAMPLERS = "opentelemetry.sdk.trace.sampling"
_PARENT_BASED = re.compile(
    r"ParentBased\{root:(?P<root>.*),remoteParentSampled:[^,]*,"
    r"remoteParentNotSampled:(?P<remote>[^,]*),localParentSampled:[^,]*,"
    r"localParentNotSampled:(?P<local>[^,]*)\}"
)
_RATIO = re.compile(r"TraceIdRatioBased\{(?P<rate>[0-9.e-]+)\}")
_OFF = "AlwaysOffSampler"
_COUNTS_ALL = "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED"
"""The SDK then counts the spans that are left out too."""
_LOW = (1 << 64) - 1
"""The bits of a trace id that the sampler by ratio looks at."""


class Sampling:
    """The decisions of the sampler of a provider. Thread-safe."""

    def __init__(self, provider: TracerProvider | None, version: str) -> None:
        from opentelemetry import trace

        self._trace = trace
        self._provider = provider
        self._version = version
        self.look()

    def look(self) -> bool:
        """Look which provider of tracers the program has; whether it has one."""
        self._tracer: Tracer = self._trace.get_tracer("jetsync", self._version, self._provider)
        self._rules = rules = _Rules.of(self._tracer)
        self.is_off: bool = type(self._tracer).__module__.startswith("opentelemetry.trace")
        """Whether nothing makes spans: the program has no provider, or one that does nothing."""
        self.begins_none: bool = self.is_off or (rules is not None and rules.rate == 0)
        """Whether every span that begins a trace is known to be left out."""
        self.is_known: bool = rules is not None
        """Whether the rules of the sampler are known; then it looks at no attributes and links."""
        return not self.is_off

    def below(self, sampled: bool, remote: bool) -> Tracer | None:
        """Return what makes a span below one that is sampled or not, and remote or not; None when
        the sampler leaves it out."""
        if self.is_off:
            return None
        rules = self._rules
        if rules is None or sampled:
            return self._tracer
        return None if (rules.off_remote if remote else rules.off_local) else self._tracer

    def first(self) -> Tracer | None:
        """Return what makes a span that begins a trace, or None when the sampler leaves it out."""
        if self.begins_none:
            return None
        rules = self._rules
        if rules is None or rules.rate is None:
            return self._tracer
        if random.random() >= rules.rate:  # noqa: S311 - a share of traces, no secret
            return None
        chosen: Any = copy.copy(self._tracer)
        chosen.id_generator = _Sampled(chosen.id_generator, rules.rate)
        found: Tracer = chosen
        return found


class _Rules:
    """The rules of a sampler: the share of the traces that it takes where there is no parent
    (None: not known), and whether it leaves out what is below a span that it has left out."""

    def __init__(self, rate: float | None, off_local: bool, off_remote: bool) -> None:
        self.rate = rate
        self.off_local = off_local
        self.off_remote = off_remote

    @classmethod
    def of(cls, tracer: Any) -> _Rules | None:
        """Return the rules of a sampler of the SDK; None for every other one."""
        sampler: Any = getattr(tracer, "sampler", None)
        if type(sampler).__module__ != _SAMPLERS or not hasattr(tracer, "id_generator"):
            return None
        if os.environ.get(_COUNTS_ALL, "").strip().lower() == "true":
            return None
        text = sampler.get_description()
        if text == _OFF:
            return cls(0.0, True, True)
        based = _PARENT_BASED.fullmatch(text)
        if based is None:  # by ratio alone, or always on
            return cls(_rate(text), False, False)
        return cls(_rate(based["root"]), based["local"] == _OFF, based["remote"] == _OFF)


def _rate(root: str) -> float | None:
    """The share that a sampler takes of the traces that begin here, by its description; None where
    it is not known, or all of them."""
    if root == _OFF:
        return 0.0
    by_ratio = _RATIO.fullmatch(root)
    rate = 1.0 if by_ratio is None else float(by_ratio["rate"])
    return rate if rate < 1 else None


class _Sampled:
    """Makes trace ids, as another generator does, that the sampler by ratio takes."""

    def __init__(self, generator: Any, rate: float) -> None:
        self._generator = generator
        self._bound = max(round(rate * (_LOW + 1)), 1)
        self.is_trace_id_random = getattr(generator, "is_trace_id_random", None)

    def generate_span_id(self) -> int:
        span_id: int = self._generator.generate_span_id()
        return span_id

    def generate_trace_id(self) -> int:
        high: int = self._generator.generate_trace_id() & ~_LOW
        return high | random.randrange(self._bound)  # noqa: S311 - see above
