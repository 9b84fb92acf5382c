"""Error codes (ADR-1 and ADR-7): the pinned list is the one of the server that runs here."""

from __future__ import annotations

import re

from jetsync.server import find_binary
from tests.errors.generate_api_errors import read_list


def test_the_words_of_every_error_are_in_the_server():
    program = find_binary().read_bytes()
    unknown = []
    for error in read_list():
        words = [part for part in re.split(r"\{\w+\}", error.description) if len(part) > 8]
        if not all(part.strip().encode() in program for part in words):
            unknown.append(error)
    assert unknown == []
