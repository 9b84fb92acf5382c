"""jetsync.jetstream.consumers - the calls on consumers, and the diagnosis of a silent one.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, rooms of
           jetstream below.
Threads:   none of its own; callbacks run on threads that client/ starts.
Touch me:  to change a call on consumers, what several calls share of one (inboxes, pins).
Not here:  configurations (config/), how messages come (pull/, push/, ordered/), acks (acks/).
"""
