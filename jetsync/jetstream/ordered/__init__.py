"""jetsync.jetstream.ordered - ordered consumers: every message once and in order, over failures.

Room:      L4, a part of jetstream/. May import: client, protocol, _core, hallway, rooms of
           jetstream below.
Threads:   none of its own; callbacks run on threads that client/ starts.
Touch me:  to change when a server consumer is replaced, from which sequence, and what users see.
Not here:  one pull and its statuses (pull/), ordered push subscriptions (push/).
"""
