"""jetsync._core - the compiled heart: parsing, queues between threads, Arrow export.

Room:      L1. May import: csrc (through csrc.pxd), hallway. May not: protocol or anything above it.
Threads:   starts none; Inbound.pump and Outbound.pump are loops without the GIL that run on L3's.
Touch me:  to change how messages cross between the socket threads and Python.
Not here:  the bytes themselves (csrc/), what a status or a subject means (client/, jetstream/).
"""
