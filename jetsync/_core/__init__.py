"""jetsync._core - the compiled heart: parsing, queues between threads, Arrow export.

Room:      L1. May import: csrc (through csrc.pxd), hallway. May not: protocol or anything above it.
Threads:   starts none; Inbound.pump and Outbound.pump are loops without the GIL that run on L3's.
Touch me:  to change how messages cross between the socket threads and Python.
Not here:  the bytes themselves (csrc/), what a status or a subject means (client/, jetstream/).
"""

import sys

if not getattr(sys, "_is_gil_enabled", lambda: True)():
    # A RuntimeError: code that catches an ImportError takes the extension modules for missing.
    raise RuntimeError(
        "jetsync needs the GIL, which guards fields of its objects: run without PYTHON_GIL=0 "
        "and -X gil=0; a free-threaded Python then turns the GIL on when jetsync is imported"
    )
