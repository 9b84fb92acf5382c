"""jetsync.jetstream.acks - confirmed acknowledgements, and signs of progress before ``ack_wait``
ends.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, and api.
Threads:   none of its own; signs of progress go out on the connection's timer.
Touch me:  to change double acknowledgements, keep_alive, the warning about late acknowledgements.
Not here:  the acknowledging methods themselves (message.py, _core/delivered.pyx).
"""
