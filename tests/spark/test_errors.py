"""Codes are stable, known, and survive the trip between processes."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import jetsync.spark.errors
from jetsync.errors import ConfigError, JetStreamError
from jetsync.spark.errors import CODES, SparkOptionError, SparkSourceError


@pytest.mark.parametrize("kind", [SparkOptionError, SparkSourceError])
def test_the_text_starts_with_the_code_and_both_survive_pickling(kind):
    error = pickle.loads(pickle.dumps(kind("gone", code="JETSYNC_DATA_LOSS")))
    assert str(error) == "[JETSYNC_DATA_LOSS] gone"
    assert error.code == "JETSYNC_DATA_LOSS"


def test_wrong_options_are_config_errors_and_trouble_while_running_is_not():
    assert issubclass(SparkOptionError, ConfigError)
    assert issubclass(SparkSourceError, JetStreamError)


def test_a_code_outside_the_list_is_refused():
    with pytest.raises(KeyError):
        SparkOptionError("x", code="JETSYNC_TYPO")


def test_every_code_in_the_sources_is_listed_and_every_listed_one_is_used():
    room = Path(jetsync.spark.errors.__file__).parent
    sources = [path for path in room.glob("*.py") if path.name != "errors.py"]
    sources.append(room.parent.parent / "pyspark_jetsync.py")
    used = {
        code
        for path in sources
        if path.exists()
        for code in re.findall(r"JETSYNC_[A-Z_]+", path.read_text())
    }
    assert used - set(CODES) == set()
    assert set(CODES) - used <= {"JETSYNC_DEPENDENCY"}  # used by the entry module alone
