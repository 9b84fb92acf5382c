"""The guide's table of options has every option, for the uses that it is for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jetsync.spark.errors import SparkOptionError
from jetsync.spark.options import LINK_OPTIONS
from jetsync.spark.read_options import READ_OPTIONS, ReadOptions
from jetsync.spark.write_options import WRITE_OPTIONS, WriteOptions

GUIDE = Path(__file__).parents[2] / "docs/guide/spark.md"


def table():
    """Return for each option of the table whether it is for batches, streams and writes."""
    found = {}
    text = GUIDE.read_text().split("## All options")[1]
    for line in re.findall(r"^\| `.*$", text, re.MULTILINE):
        names, *uses = (cell.strip() for cell in line.split("|")[1:5])
        for name in re.findall(r"`(\w+)`", names):
            assert name not in found, name
            found[name] = tuple(use == "x" for use in uses)
    return found


OPTIONS = table()


def is_known(parse, name, **base):
    """Whether an option is one for this use; its value may still be wrong."""
    try:
        parse({**base, name: "?"})
    except SparkOptionError as error:
        return error.code != "JETSYNC_UNKNOWN_OPTION"
    return True


def test_no_option_is_missing_and_none_is_made_up():
    assert set(OPTIONS) == {*LINK_OPTIONS, *READ_OPTIONS, *WRITE_OPTIONS}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_for_what_the_table_says(name):
    batch, stream, write = OPTIONS[name]
    assert is_known(lambda given: ReadOptions.parse(given, streaming=False), name) == batch
    assert is_known(lambda given: ReadOptions.parse(given, streaming=True), name) == stream
    assert is_known(WriteOptions.parse, name) == write


def test_an_option_of_another_use_says_which():
    with pytest.raises(
        SparkOptionError, match="'maxOffsetsPerTrigger' is for streaming reads only"
    ):
        ReadOptions.parse({"stream": "S", "maxoffsetspertrigger": "1"}, streaming=False)
