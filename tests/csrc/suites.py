"""The unit tests in C, by the names that main.c knows."""

from __future__ import annotations

SUITES = (
    "buf",
    "chain",
    "columns",
    "encode",
    "header",
    "jsack",
    "parser",
    "puback",
    "slots",
    "stored",
    "subject",
    "utf8",
)
