"""The unit tests in C, by the names that main.c knows."""

from __future__ import annotations

SUITES = (
    "blake2",
    "buf",
    "chain",
    "columns",
    "encode",
    "header",
    "inbound",
    "jsack",
    "lines",
    "outbound",
    "parser",
    "puback",
    "queue",
    "heartbeats",
    "reader_turn",
    "resend",
    "send",
    "slots",
    "stored",
    "subject",
    "sync",
    "tally",
    "token",
    "turn",
    "utf8",
    "wakeup",
    "websocket",
    "websocket_link",
)
