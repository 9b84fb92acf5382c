"""jetsync.protocol - what the bytes mean: INFO, CONNECT, errors, names, server URLs, states.

Room:      L2. May import: hallway. May not: _core, client or anything above it.
Threads:   none, no sockets, no waiting: values go in, values come out.
Touch me:  to change authentication, server URLs, backoff, the status table, checks of names.
Not here:  encoding and parsing of messages (_core/, csrc/), connecting and reconnecting (client/).
"""
