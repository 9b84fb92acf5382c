"""jetsync.jetstream.consumers - consumers: their configuration and state, and why one is silent.

Room:      L4, a part of jetstream/. May import: client, protocol, hallway, the rest of jetstream.
Threads:   none of its own; callbacks run on threads that client/ starts.
Touch me:  to change a field of ConsumerConfig or ConsumerInfo, a call on consumers, priorities.
Not here:  how messages come (pull/, push/, ordered/) and are acknowledged (acks.py, message.py).
"""
