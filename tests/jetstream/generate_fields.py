"""Writes ``jetsync/jetstream/config/fields.py``: the fields of configurations as keyword types.

So that editors and type checkers know the keywords of ``create_stream`` and its like. The classes
themselves are the source. After a change of a field::

    python -m tests.jetstream.generate_fields
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOM = Path(__file__).parents[2] / "jetsync" / "jetstream"
TARGET = ROOM / "config/fields.py"

# Annotations of fields that take more than they read back.
GIVEN = {
    "Duration": "Seconds",
    "MaybeDuration": "Seconds | None",
    "Durations": "Iterable[Seconds]",
}

HEAD = '''"""The fields of both configurations, as keywords of the calls that take them.

Written by tests/jetstream/generate_fields.py; what a field means stands in its class. None
stands for a field's default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

from jetsync._deadline import Seconds
from jetsync.jetstream.config.consumer import (
    AckPolicy,
    DeliverPolicy,
    PriorityPolicy,
    ReplayPolicy,
)
from jetsync.jetstream.config.stream import (
    DiscardPolicy,
    PersistMode,
    Placement,
    RePublish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConsumerLimits,
    StreamSource,
    SubjectTransform,
)

__all__ = ["ConsumerFields", "StreamFields", "SubscribeFields"]
'''


def enumerations(path: str) -> dict[str, list[str]]:
    """The texts of each enumeration in a file."""
    tree = ast.parse((ROOM / path).read_text())
    return {
        one.name: [ast.unparse(line.value) for line in one.body if isinstance(line, ast.Assign)]
        for one in tree.body
        if isinstance(one, ast.ClassDef) and "WireEnum" in map(ast.unparse, one.bases)
    }


TEXTS = {**enumerations("config/stream.py"), **enumerations("config/consumer.py")}


def fields(path: str, kind: str) -> dict[str, str]:
    """The fields of a class and what may be given for each; None is its default."""
    tree = ast.parse((ROOM / path).read_text())
    body = next(n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind)
    return {
        node.target.id: given(ast.unparse(node.annotation)).removesuffix(" | None") + " | None"
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def given(annotation: str) -> str:
    """What users may give: an object also as a mapping, a list as anything iterable."""
    if annotation in GIVEN:
        return GIVEN[annotation]
    if listed := re.fullmatch(r"Listing\[(\w+)\]", annotation):
        return f"Iterable[{given(listed[1])}]"
    kind, _, rest = annotation.partition(" | ")
    if kind in TEXTS and rest == "str":
        return f"{kind} | {kind}Text"
    if rest in ("", "None") and re.match(r"[A-Z](?!apping)", kind):
        return " | ".join(filter(None, [kind, "Mapping[str, Any]", rest]))
    return annotation


def alias(kind: str, texts: list[str]) -> str:
    lines = "".join(f"    {text},\n" for text in texts).replace("'", '"')
    return f"{kind}Text = Literal[\n{lines}]\n"


def block(name: str, base: str, words: str, found: dict[str, str]) -> str:
    lines = "".join(f"    {field}: {kind}\n" for field, kind in found.items())
    return f'\n\nclass {name}({base}, total=False):\n    """{words}"""\n\n{lines}'


def text() -> str:
    """What the file should say."""
    consumer = fields("config/consumer.py", "ConsumerConfig")
    taken = {"flow_control": consumer.pop("flow_control")}
    return "".join(
        [
            HEAD,
            "\n",
            *(alias(kind, texts) for kind, texts in TEXTS.items()),
            block(
                "StreamFields",
                "TypedDict",
                "The fields of ``StreamConfig``.",
                fields("config/stream.py", "StreamConfig"),
            ),
            block(
                "SubscribeFields",
                "TypedDict",
                "The fields of ``ConsumerConfig`` that are no keywords of ``subscribe`` itself.",
                consumer,
            ),
            block("ConsumerFields", "SubscribeFields", "The fields of ``ConsumerConfig``.", taken),
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(text())
