"""The unit tests in C, by the names that main.c knows."""

from __future__ import annotations

SUITES = (
    "blake2",
    "buf",
    "chain",
    "columns",
    "encode",
    "header",
    "jsack",
    "lines",
    "parser",
    "puback",
    "slots",
    "stored",
    "subject",
    "tally",
    "token",
    "utf8",
)
