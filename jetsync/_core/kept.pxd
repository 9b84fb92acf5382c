# Kept: what was sent and is sent again over the next link, until it is known to have arrived.
#
# It belongs to the lock that guards the buffer its bytes come from. A PONG tells what has arrived:
# everything that was sent before its PING (`client/repeats.py`).
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t

from jetsync._core.csrc cimport (
    JET_OK, jet_buf, jet_buf_append, jet_buf_clear, jet_buf_consume, jet_buf_free, jet_buf_init,
    jet_buf_len,
)


cdef struct Kept:
    jet_buf frames
    uint64_t end            # bytes ever put in there
    size_t mark             # with so many in there somebody has to find out; 0: nobody does


# Bytes.
cdef enum:
    KEPT_ROOM = 64 * 1024   # memory that stays when nobody has to find out any more
    KEPT_MORE = 512 * 1024  # with so much more of what may not have arrived, find out at once
    KEPT_MOST = 8 << 20     # more is not kept


# What somebody should do who has put something in.
cdef enum:
    NOTHING = 0
    BEGIN_TO_ASK = 1        # this is the first, and nobody is finding out yet whether it arrives
    ASK_NOW = 2             # it has become much


cdef inline void kept_init(Kept *kept) noexcept nogil:
    jet_buf_init(&kept.frames)
    kept.end = 0
    kept.mark = 0


cdef inline void kept_free(Kept *kept) noexcept nogil:
    jet_buf_free(&kept.frames)


cdef inline int kept_add(Kept *kept, const uint8_t *frames, size_t n) noexcept nogil:
    """Copy `n` bytes. Returns what to do about it."""
    cdef bint first = kept.mark == 0
    if jet_buf_len(&kept.frames) + n > KEPT_MOST:
        # The peer takes all of this and answers no PING.
        jet_buf_consume(&kept.frames, jet_buf_len(&kept.frames))
        kept.mark = KEPT_MORE
    if jet_buf_append(&kept.frames, frames, n) == JET_OK:
        kept.end += n
    if not first and jet_buf_len(&kept.frames) < kept.mark:
        return NOTHING
    kept.mark = jet_buf_len(&kept.frames) + KEPT_MORE
    return BEGIN_TO_ASK if first else ASK_NOW


cdef inline bint kept_arrived(Kept *kept, uint64_t point, bint last) noexcept nogil:
    """Forget what was put in up to `point`. Returns whether there is more. If there is none and
    this was the `last` question, the next one put in wants a new one.

    Until then the memory stays: whoever acknowledges goes on, and getting memory anew costs more
    than to copy into it."""
    cdef size_t n = jet_buf_len(&kept.frames)
    if n > kept.end - point:
        jet_buf_consume(&kept.frames, n - <size_t>(kept.end - point))
        n = <size_t>(kept.end - point)
    if kept.mark:
        kept.mark = n + KEPT_MORE
    if last and n == 0:
        kept.mark = 0
        jet_buf_clear(&kept.frames, KEPT_ROOM)
    return n > 0
