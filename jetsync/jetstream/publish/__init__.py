"""jetsync.jetstream.publish - publishing that neither loses nor doubles a message.

Room:      L4, a part of jetstream/. May import: client, protocol, hallway, jetstream rooms below.
Threads:   none of its own; callbacks run on threads that client/ starts.
Touch me:  to change retries, outcomes, windows, futures, bulk or atomic publishing.
Not here:  the bytes of a frame (_core/, csrc/); publishing without a stream (client/).
"""
