"""Where the programs that tests start find jetsync and the tests.

The jetsync under test comes first: an installed wheel must not be hidden by the checkout.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import jetsync

ROOT = Path(__file__).parents[2]
"""The checkout."""

_ENTRY = importlib.util.find_spec("pyspark_jetsync")  # found, not imported: it needs PySpark
_PLACES = [Path(jetsync.__file__).parents[1], ROOT]
if _ENTRY is not None and _ENTRY.origin is not None:
    _PLACES.insert(1, Path(_ENTRY.origin).parent)

SEARCH_PATH = os.pathsep.join(dict.fromkeys(map(str, _PLACES)))
"""A value for PYTHONPATH."""
