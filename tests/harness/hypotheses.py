"""Property tests choose anew in each run, and a failure says how to have the same choice again."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("jetsync", print_blob=True)
settings.load_profile("jetsync")
