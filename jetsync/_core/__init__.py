"""jetsync._core - the compiled part: messages, queues, publish windows, Arrow export.

Room:      L1. May import: csrc, hallway. May not: protocol or anything above it.
Threads:   starts none; Inbound.pump and Outbound.pump run on threads of client/, without the GIL.
Touch me:  to change how messages cross between the socket threads and Python.
Not here:  parsing and encoding (csrc/), locks and sockets (csrc/link/), the meaning of statuses of
a pull or a push (jetstream/).
"""

import sys

if not getattr(sys, "_is_gil_enabled", lambda: True)():
    # A RuntimeError: code that catches an ImportError takes the extension modules for missing.
    raise RuntimeError(
        "jetsync needs the GIL, which guards fields of its objects: run without PYTHON_GIL=0 "
        "and -X gil=0; a free-threaded Python then turns the GIL on when jetsync is imported"
    )
