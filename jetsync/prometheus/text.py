"""The text format of Prometheus, version 0.0.4 ("Exposition formats", prometheus.io)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from jetsync._measurement import Measurement

__all__ = ["Measured", "as_text", "families", "render"]


class Measured(Protocol):
    """An object with measurements: a connection, consumer, worker, service, or one of your own."""

    def measurements(self) -> list[Measurement]:
        """Return the present measurements."""


def families(
    objects: Iterable[Measured], failed: Callable[[Exception], object] | None = None
) -> dict[str, list[Measurement]]:
    """Return the numbers of all objects by name. The same number twice (an object given twice, or
    two connections of one name) is taken once: a scrape with it would be refused as a whole.

    ``failed`` is told of the objects that raise, which are left out then; without it they raise.
    """
    found: dict[str, dict[tuple[tuple[str, str], ...], Measurement]] = {}
    for one in objects:
        try:
            numbers = list(one.measurements())
        except Exception as error:
            if failed is None:
                raise
            failed(error)
            continue
        for number in numbers:
            labels = tuple(sorted(number.labels.items()))
            found.setdefault(number.name, {}).setdefault(labels, number)
    return {name: list(numbers.values()) for name, numbers in found.items()}


def render(*objects: Measured) -> str:
    """Return the numbers of these objects in the text format of Prometheus.

    Consumers ask their server, at most every 5 seconds each; the rest does not block. Thread-safe.
    Raises ConnectionClosedError for a consumer whose connection is closed.
    """
    return as_text(families(objects))


def as_text(found: Mapping[str, Sequence[Measurement]]) -> str:
    """Return numbers in the text format of Prometheus."""
    lines = []
    for name, numbers in found.items():
        lines.append(f"# HELP {name} {_escaped(numbers[0].help, quotes=False)}")
        lines.append(f"# TYPE {name} {numbers[0].kind}")
        for number in numbers:
            lines += _samples(number)
    return "\n".join(lines) + "\n" if lines else ""


def _samples(number: Measurement) -> Iterator[str]:
    name = number.name
    pairs = [f'{key}="{_escaped(text)}"' for key, text in number.labels.items()]
    labels = f"{{{','.join(pairs)}}}"
    if number.count is None:
        yield f"{name}{labels} {_number(number.value)}"
        return
    if number.buckets:
        for bound, count in (*number.buckets, (math.inf, number.count)):
            within = ",".join([*pairs, f'le="{_number(bound)}"'])
            yield f"{name}_bucket{{{within}}} {count}"
    yield f"{name}_sum{labels} {_number(number.value)}"
    yield f"{name}_count{labels} {number.count}"


def _escaped(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
