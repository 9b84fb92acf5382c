"""Where the programs that tests start find jetsync and the tests.

The jetsync under test comes first: an installed wheel must not be hidden by the checkout.
"""

from __future__ import annotations

import os
from pathlib import Path

import jetsync
import pyspark_jetsync

ROOT = Path(__file__).parents[2]
"""The checkout."""

SEARCH_PATH = os.pathsep.join(
    dict.fromkeys(
        str(place)
        for place in (
            Path(jetsync.__file__).parents[1],
            Path(pyspark_jetsync.__file__).parent,
            ROOT,
        )
    )
)
"""A value for PYTHONPATH."""
