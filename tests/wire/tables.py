r"""Tables of small texts and what they mean: acknowledgement subjects, publish answers, sending.

The files look like the test vectors (see vectors.py): ``== title``, then

jsack.txt     ``> reply subject`` and ``ack domain="" account="" stream="S" consumer="C" delivered=1
              stream_seq=2 consumer_seq=3 ns=4 pending=5``, or ``no ack``
puback.txt    ``> answer`` and ``stored stream="S" seq=1`` (``duplicate``), or ``left to JSON``
encode.txt    ``pub subject="a" reply="" header="" payload="x"``, ``answer subject= reply=
              payload=``, ``sub subject= queue= sid=``, ``unsub sid= max=`` or ``header name=
              value=``; then
              ``< bytes on the wire``, or ``refused KIND``
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.wire.vectors import FOLDER, unescape

TABLES = FOLDER / "tables"

JsAckFields = tuple[bytes, bytes, bytes, bytes, int, int, int, int, int]


@dataclass(frozen=True)
class JsAckCase:
    title: str
    text: bytes
    fields: JsAckFields | None  # in the order of the subject's new form; None: no acknowledgement


@dataclass(frozen=True)
class PubAckCase:
    title: str
    text: bytes
    stored: tuple[bytes, int, bool] | None  # stream, sequence, duplicate; None: needs real JSON


@dataclass(frozen=True)
class EncodeCase:
    title: str
    verb: str
    subject: bytes = b""
    second: bytes = b""  # reply or queue; for a header its value
    header: bytes = b""
    payload: bytes = b""
    sid: int = 0
    max_messages: int = 0
    sent: bytes = b""
    refused: str = ""


def jsacks() -> list[JsAckCase]:
    found = []
    for title, lines in _cases("jsack"):
        words, numbers = _fields(lines["ack"]) if "ack" in lines else ({}, {})
        fields = None
        if words:
            fields = (
                *(words[key] for key in ("domain", "account", "stream", "consumer")),
                *(
                    numbers[key]
                    for key in ("delivered", "stream_seq", "consumer_seq", "ns", "pending")
                ),
            )
        assert (fields is None) == (lines.get("no") == "ack"), title
        found.append(JsAckCase(title, unescape(lines[">"]), fields))  # type: ignore[arg-type]
    return found


def pubacks() -> list[PubAckCase]:
    found = []
    for title, lines in _cases("puback"):
        stored = None
        if "stored" in lines:
            words, numbers = _fields(lines["stored"])
            stored = (words["stream"], numbers["seq"], lines["stored"].endswith(" duplicate"))
        else:
            assert lines["left"] == "to JSON", title
        found.append(PubAckCase(title, unescape(lines[">"]), stored))
    return found


def encodings() -> list[EncodeCase]:
    found = []
    for title, lines in _cases("encode"):
        verb = next(v for v in ("pub", "answer", "sub", "unsub", "header") if v in lines)
        words, numbers = _fields(lines[verb])
        assert ("<" in lines) != ("refused" in lines), title
        found.append(
            EncodeCase(
                title,
                verb,
                words.get("subject", words.get("name", b"")),
                words.get("reply", words.get("queue", words.get("value", b""))),
                words.get("header", b""),
                words.get("payload", b""),
                numbers.get("sid", 0),
                numbers.get("max", 0),
                unescape(lines.get("<", "")),
                lines.get("refused", ""),
            )
        )
    return found


def _cases(name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each case as its first words with what follows them."""
    for part in (TABLES / f"{name}.txt").read_text().split("\n== ")[1:]:
        title, *lines = part.splitlines()
        pairs = [line.partition(" ") for line in lines if line and not line.startswith("#")]
        yield f"{name}: {title}", {first: rest for first, _, rest in pairs}


def _fields(line: str) -> tuple[dict[str, bytes], dict[str, int]]:
    words = {m[1]: unescape(m[2]) for m in re.finditer(r'(\w+)="((?:[^"\\]|\\.)*)"', line)}
    bare = re.sub(r'"((?:[^"\\]|\\.)*)"', "", line)
    return words, {m[1]: int(m[2]) for m in re.finditer(r"(\w+)=(\d+)", bare)}
