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


def rows():
    """Return the names, the default and the meaning of each row of the table."""
    text = GUIDE.read_text().split("## All options")[1]
    for line in re.findall(r"^\| `.*$", text, re.MULTILINE):
        names, _, _, _, default, meaning = (cell.strip() for cell in line.split("|")[1:7])
        yield re.findall(r"`(\w+)`", names), default, meaning


OPTIONS = table()
DEFAULTS = {
    name: default.strip("`")
    for names, default, _ in rows()
    for name in names
    if re.fullmatch(r"\d+|`[\w]+`", default)
}


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


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_of_the_table_is_what_counts_without_the_option(name):
    for used, parse, base in (
        (OPTIONS[name][0], lambda given: ReadOptions.parse(given, streaming=False), "stream"),
        (OPTIONS[name][1], lambda given: ReadOptions.parse(given, streaming=True), "stream"),
        (OPTIONS[name][2], WriteOptions.parse, "publishStream"),
    ):
        if used:
            assert parse({base: "S", name: DEFAULTS[name]}) == parse({base: "S"})


def test_most_options_have_a_default_that_can_be_tried_and_all_have_a_meaning():
    assert len(DEFAULTS) >= 25
    assert [names for names, _, meaning in rows() if not meaning] == []


def test_an_option_of_another_use_says_which():
    with pytest.raises(
        SparkOptionError, match="'maxOffsetsPerTrigger' is for streaming reads only"
    ):
        ReadOptions.parse({"stream": "S", "maxoffsetspertrigger": "1"}, streaming=False)
