"""The C library as it is, without the extension around it: a shared library, called by ctypes."""

from __future__ import annotations

import ctypes
import functools
import tempfile
from collections.abc import Iterable
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint8, c_uint32, c_uint64
from pathlib import Path

from tests.csrc.build import CSRC, compiler, run_tool

OPS = {1: "MSG", 2: "PING", 3: "PONG", 4: "+OK", 5: "-ERR", 6: "INFO"}
REFUSALS = {-2: "op", -3: "args", -4: "size", -5: "line", -6: "crlf", -7: "subject", -8: "header"}


class Span(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_void_p), ("len", c_size_t)]

    def bytes(self) -> bytes:
        return ctypes.string_at(self.ptr, self.len) if self.len else b""


class Parser(ctypes.Structure):
    _fields_ = [("scanned", c_size_t), ("need", c_size_t), ("max_size", c_size_t)]


class Frame(ctypes.Structure):
    _fields_ = [
        ("op", c_int),
        ("status", c_int),
        ("sid", c_uint64),
        ("subject", Span),
        ("reply", Span),
        ("header", Span),
        ("payload", Span),
    ]


class HeaderIter(ctypes.Structure):
    _fields_ = [("rest", Span), ("malformed", c_uint32)]


class JsAck(ctypes.Structure):
    _fields_ = [
        ("domain", Span),
        ("account_hash", Span),
        ("stream", Span),
        ("consumer", Span),
        ("num_delivered", c_uint64),
        ("stream_seq", c_uint64),
        ("consumer_seq", c_uint64),
        ("timestamp_ns", c_int64),
        ("num_pending", c_uint64),
    ]


class PubAck(ctypes.Structure):
    _fields_ = [("seq", c_uint64), ("duplicate", c_int), ("further", c_int), ("stream", Span)]


class Blake2(ctypes.Structure):
    _fields_ = [
        ("chain", c_uint64 * 8),
        ("total", c_uint64),
        ("waiting", c_size_t),
        ("digest", c_size_t),
        ("block", c_uint8 * 128),
    ]


class Buf(ctypes.Structure):
    _fields_ = [
        ("data", POINTER(c_uint8)),
        ("start", c_size_t),
        ("end", c_size_t),
        ("cap", c_size_t),
    ]


_SIGNATURES = {
    "jet_parser_init": (None, [POINTER(Parser), c_size_t]),
    "jet_parser_next": (c_int, [POINTER(Parser), Span, POINTER(Frame), POINTER(c_size_t)]),
    "jet_header_description": (Span, [Span]),
    "jet_header_begin": (None, [POINTER(HeaderIter), Span]),
    "jet_header_next": (c_int, [POINTER(HeaderIter), POINTER(Span), POINTER(Span)]),
    "jet_header_append": (c_int, [POINTER(Buf), Span, Span]),
    "jet_jsack_parse": (c_int, [Span, POINTER(JsAck)]),
    "jet_puback_parse": (c_int, [Span, POINTER(PubAck)]),
    "jet_buf_init": (None, [POINTER(Buf)]),
    "jet_buf_free": (None, [POINTER(Buf)]),
    "jet_blake2_init": (None, [POINTER(Blake2), c_size_t]),
    "jet_blake2_add": (None, [POINTER(Blake2), Span]),
    "jet_blake2_end": (None, [POINTER(Blake2), c_char_p]),
    "jet_encode_pub": (c_int, [POINTER(Buf), Span, Span, Span, Span, c_size_t]),
    "jet_encode_answer": (c_int, [POINTER(Buf), Span, Span, Span, c_size_t]),
    "jet_encode_sub": (c_int, [POINTER(Buf), Span, Span, c_uint64, c_size_t]),
    "jet_encode_unsub": (c_int, [POINTER(Buf), c_uint64, c_uint64]),
}


@functools.cache
def jet() -> ctypes.CDLL:
    """Compile csrc and load it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "libjet.so"
        sources = [str(source) for source in sorted(CSRC.glob("*.c"))]
        flags = ["-std=c11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
        run_tool([*compiler(), *flags, *sources, "-o", str(path)])
        library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def span(data: bytes) -> Span:
    """Borrowed: `data` has to outlive it."""
    return Span(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data))


class Stream:
    """Server bytes to frames, as a reader does it: what is not consumed stays in front."""

    def __init__(self, max_size: int) -> None:
        self.parser = Parser()
        jet().jet_parser_init(byref(self.parser), max_size)
        self.left = b""
        self.refusal = ""

    def feed(self, data: bytes) -> Iterable[tuple[str, int, int, bytes, bytes, bytes, bytes]]:
        """Yield (op, status, sid, subject, reply, header, payload) of each whole frame."""
        self.left += data
        frame, used = Frame(), c_size_t()
        while self.left:
            got = jet().jet_parser_next(
                byref(self.parser), span(self.left), byref(frame), byref(used)
            )
            if got == 0:
                return
            if got < 0:
                self.refusal = REFUSALS[got]
                return
            spans = (frame.subject, frame.reply, frame.header, frame.payload)
            yield (OPS[frame.op], frame.status, frame.sid, *(s.bytes() for s in spans))
            self.left = self.left[used.value :]


def description(block: bytes) -> bytes:
    return jet().jet_header_description(span(block)).bytes()


def header_lines(block: bytes) -> tuple[list[tuple[bytes, bytes]], int]:
    """Every (name, value) in order, and how many lines were neither."""
    it, name, value = HeaderIter(), Span(), Span()
    jet().jet_header_begin(byref(it), span(block))
    found = []
    while jet().jet_header_next(byref(it), byref(name), byref(value)):
        found.append((name.bytes(), value.bytes()))
    return found, it.malformed


def parse_jsack(reply: bytes) -> tuple[bytes | int, ...] | None:
    ack = JsAck()
    if jet().jet_jsack_parse(span(reply), byref(ack)):
        return None
    values = (getattr(ack, field[0]) for field in JsAck._fields_)
    return tuple(v.bytes() if isinstance(v, Span) else v for v in values)


def parse_puback(json: bytes) -> tuple[bytes, int, bool] | None:
    ack = PubAck()
    if not jet().jet_puback_parse(span(json), byref(ack)):
        return None
    return ack.stream.bytes(), ack.seq, bool(ack.duplicate)


def blake2(size: int, *pieces: bytes) -> bytes:
    """The digest of `size` bytes of all pieces together."""
    state, digest = Blake2(), ctypes.create_string_buffer(size)
    jet().jet_blake2_init(byref(state), size)
    for piece in pieces:
        jet().jet_blake2_add(byref(state), span(piece))
    jet().jet_blake2_end(byref(state), digest)
    return digest.raw


def encoded(verb: str, *parts: bytes | int) -> tuple[bytes, str]:
    """What `jet_encode_<verb>` (or `jet_header_append`) appends, and how it refuses."""
    out = Buf()
    jet().jet_buf_init(byref(out))
    function = getattr(jet(), "jet_header_append" if verb == "header" else f"jet_encode_{verb}")
    given = [span(p) if isinstance(p, bytes) else p for p in parts]
    if verb in ("pub", "answer", "sub"):
        given.append(4096)
    status = function(byref(out), *given)
    size = out.end - out.start
    sent = ctypes.string_at(ctypes.addressof(out.data.contents) + out.start, size) if size else b""
    jet().jet_buf_free(byref(out))
    return sent, REFUSALS.get(status, "")
