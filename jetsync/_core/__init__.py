"""jetsync._core - the compiled part: messages, queues, publish windows, Arrow export.

Room:      L1. May import: csrc, hallway. May not: protocol or anything above it.
Threads:   starts none; Inbound.pump and Outbound.pump run on threads of client/, without the GIL.
Touch me:  to change how messages cross between the socket threads and Python.
Not here:  parsing and encoding (csrc/), locks and sockets (csrc/link/), the meaning of statuses of
a pull or a push (jetstream/).
"""
