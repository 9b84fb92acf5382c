"""The prefix of inboxes: a subject that more can follow."""

from __future__ import annotations

import pytest

from jetsync.errors import ConfigError
from jetsync.protocol.inboxes import check_inbox_prefix


@pytest.mark.parametrize("prefix", ["_INBOX", "a.b.c", "_INBOX_é", "x" * 1024])
def test_a_usable_inbox_prefix_comes_back(prefix: str) -> None:
    assert check_inbox_prefix(prefix) == prefix


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "a b",
        "a\r\n",
        "a\x7f",
        "*",
        "a.*",
        "a.>",
        ">",
        "x" * 1025,
        None,
        b"_INBOX",
    ],
)
def test_an_inbox_prefix_that_makes_no_subject_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="inbox_prefix"):
        check_inbox_prefix(prefix)
