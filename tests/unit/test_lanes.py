"""The lanes of the tests know their long files by name: each of them exists."""

from __future__ import annotations

from tests.harness.lanes import FIRST
from tests.harness.places import ROOT


def test_every_place_that_begins_first_exists():
    assert FIRST
    for place in FIRST:
        assert (ROOT / place).exists(), place
        assert (ROOT / place).is_dir() == place.endswith("/"), place
