"""Which ids a task gives to its rows."""

from __future__ import annotations

import pytest

from jetsync.spark.ids import LoggedContentIds, PositionIds, SourceIds
from jetsync.spark.publishing import Published, make_ids
from jetsync.spark.write_options import WriteOptions


@pytest.mark.parametrize(
    ("dedup", "kind"),
    [
        ("content", LoggedContentIds),
        ("source", SourceIds),
        ("position", PositionIds),
        ("column", None),
        ("none", None),
    ],
)
def test_ids_are_made_only_where_the_option_says_so(dedup, kind):
    made = make_ids(WriteOptions.parse({"dedup": dedup}), "query", "3", 1)
    assert made is None if kind is None else isinstance(made, kind)


def test_counts_of_batches_add_up():
    assert Published(2, 1) + Published(3, 4) == Published(5, 5)
