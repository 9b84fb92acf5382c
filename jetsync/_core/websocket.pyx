"""WebSocket: a link inside of frames, as a filter of its bytes. Binds link_websocket."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from jetsync._core.csrc cimport (
    JET_WEBSOCKET_CODE, JET_WEBSOCKET_CONTROLS, JET_WEBSOCKET_LENGTH, JET_WEBSOCKET_MASKED,
    JET_WEBSOCKET_OPCODE, JET_WEBSOCKET_ORDER, JET_WEBSOCKET_RESERVED, bytes_of, jet_buf, jet_buf_free,
    jet_buf_init, jet_buf_len, jet_buf_ptr, jet_span, jet_websocket_code, jet_websocket_part, span_of,
    span_of_bytes,
)
from jetsync._core.link cimport (
    LINK_FILTER_BROKEN, link_filtered, link_websocket_decode, link_websocket_encode,
    link_websocket_free, link_websocket_init, link_websocket_next, link_websocket_owes,
    link_websocket_put,
)

from os import urandom

from jetsync.errors import ProtocolError

cdef enum:
    WORTH = 64             # fewer bytes are not compressed
    INFLATE = 4 << 20      # bytes inflated before they are parsed: what a few received ones may become
    PIECE = 256 * 1024
    FINALS = 256           # deflate blocks of one message that say they are its last one
    FINAL = INFLATE // FINALS  # what each of them counts as inflated: it needs an inflater of its own

cdef str NO_MEMORY = "more data than there is memory for"
cdef bytes TAIL = b"\0\0\xff\xff"  # what the sender leaves out at the end of a message (RFC 7692)
cdef dict FAULTS = {
    JET_WEBSOCKET_RESERVED: "a WebSocket frame with reserved bits that were not agreed on",
    JET_WEBSOCKET_OPCODE: "a WebSocket frame of a kind that NATS does not use",
    JET_WEBSOCKET_MASKED: "a masked WebSocket frame, which only clients may send",
    JET_WEBSOCKET_CONTROLS: "a WebSocket control frame in pieces or of more than 125 bytes",
    JET_WEBSOCKET_ORDER: "WebSocket frames out of order",
    JET_WEBSOCKET_LENGTH: "a WebSocket frame with an impossible length",
    JET_WEBSOCKET_CODE: "a WebSocket close frame without a valid code",
}


cpdef bint is_native(filter) noexcept:
    """Whether the C library can use this filter without Python code."""
    return isinstance(filter, WebSocket) and not (<WebSocket>filter).deflate


cdef class WebSocket:
    """The frames of one link: a filter, see ``Filter`` in outbound.pyi.

    One thread decodes and one encodes at a time. ``deflate``: messages are compressed, each by itself
    (permessage-deflate without context takeover), ``most`` plain bytes in one at most. ``encode``
    raises ConnectionResetError once the close frame of the server was answered.
    """

    def __cinit__(self, bint deflate=False):
        cdef bytes secret = urandom(sizeof(self.link.key))
        link_websocket_init(&self.link, deflate)
        memcpy(&self.link.key, <const char *>secret, sizeof(self.link.key))
        self.deflate = deflate
        self.most = PIECE
        self.raw = self.packed = b""

    def __dealloc__(self):
        link_websocket_free(&self.link)

    def hold_to(self, max_payload):
        """Put no more into one compressed message than a server with this limit inflates."""
        self.most = max(1, min(PIECE, max_payload))

    def decode(self, data):
        """Return the pieces that received bytes complete. Raises ProtocolError for what is no frame
        that a server may send."""
        cdef bytes received = bytes(data)
        cdef jet_span span = span_of_bytes(received)
        cdef jet_buf out
        if self.deflate:
            return self._unpack(received)
        jet_buf_init(&out)
        try:
            if link_websocket_decode(&self.link, span.ptr, span.len, &out) == LINK_FILTER_BROKEN:
                raise ProtocolError(self.fault()) if self.link.fault else MemoryError(NO_MEMORY)
            return [bytes_of(span_of(jet_buf_ptr(&out), jet_buf_len(&out)))]
        finally:
            jet_buf_free(&out)

    cdef list _unpack(self, bytes data):
        """Decode with compression, up to about INFLATE bytes: the rest waits for another call."""
        cdef list pieces = []
        cdef size_t room = INFLATE, used
        cdef jet_websocket_part part
        cdef bytes raw = self.raw + data
        cdef jet_span rest = span_of_bytes(raw)
        cdef int got = 1
        while room:
            if self.packed or self.full:
                room = self._inflate(pieces, room)
                continue
            got = link_websocket_next(&self.link, rest, &part, &used)
            rest = span_of(rest.ptr + used, rest.len - used)
            if got < 0:
                raise ProtocolError(self.fault())
            if got == 0:
                break
            if not part.compressed:
                pieces.append(bytes_of(part.bytes))
                room -= min(room, part.bytes.len)
                continue
            self.final = part.final
            self.packed = bytes_of(part.bytes) + (TAIL if part.final else b"")
        self.raw = bytes_of(rest)
        return pieces

    cdef size_t _inflate(self, list pieces, size_t room) except? 0:
        """Inflate some of what is packed; returns how much room is left."""
        import zlib

        cdef bytes plain
        if self.inflater is None:
            self.inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            plain = self.inflater.decompress(self.packed, room)
        except zlib.error:
            raise ProtocolError("a WebSocket message that cannot be inflated") from None
        self.full = <size_t>len(plain) >= room
        self.packed = self.inflater.unconsumed_tail
        room -= len(plain)
        if self.inflater.eof:  # a block may say that it is the last one; others may follow
            self.finals += 1
            if self.finals > FINALS:
                raise ProtocolError("a WebSocket message of too many final blocks")
            room -= min(room, <size_t>FINAL)
            self.packed = self.inflater.unused_data
            self.full = False
            self.inflater = None
        if self.final and not self.packed and not self.full:
            self.inflater = None
            self.finals = 0
        pieces.append(plain)
        return room

    def encode(self, data):
        """Return the frames for ``data``, with the answers that are due."""
        cdef bytes plain = bytes(data), piece, packed
        cdef jet_buf out
        cdef size_t at = 0
        cdef link_filtered got
        jet_buf_init(&out)
        try:
            if not self.deflate:
                got = link_websocket_encode(&self.link, span_of_bytes(plain).ptr, len(plain), &out)
            else:
                got = link_websocket_put(&self.link, span_of(NULL, 0), False, &out)
            while self.deflate and got != LINK_FILTER_BROKEN and not self.ended and at < <size_t>len(plain):
                piece = plain[at:at + self.most]
                at += len(piece)
                packed = deflated(piece)
                got = link_websocket_put(&self.link, span_of_bytes(packed or piece), bool(packed), &out)
            if got == LINK_FILTER_BROKEN:
                raise ConnectionResetError("the WebSocket is closed")
            return bytes_of(span_of(jet_buf_ptr(&out), jet_buf_len(&out)))
        finally:
            jet_buf_free(&out)

    cdef str fault(self):
        return FAULTS.get(self.link.fault)

    @property
    def owes(self):
        """Whether a ping or the close frame waits for its answer."""
        return link_websocket_owes(&self.link)

    @property
    def more(self):
        """Whether ``decode`` has more, and wants to be called again."""
        return bool(self.raw or self.packed or self.full)

    @property
    def ended(self):
        """Whether nothing may be sent any more: the close frame was answered."""
        return self.link.ended

    @property
    def goodbye(self):
        """The code and reason of the close frame of the server; None before it has come."""
        cdef jet_span said
        if not self.link.reader.closed:
            return None
        said = span_of(self.link.reader.control, self.link.reader.control_len)
        cdef unsigned code = jet_websocket_code(said)
        cdef str text = bytes_of(said)[2:].decode("utf-8", "replace")
        return f"{code} {text}".strip()


cdef bytes deflated(bytes plain):
    """Compress one message, if that makes it shorter; else None."""
    import zlib

    if len(plain) < WORTH:
        return None
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    cdef bytes packed = packer.compress(plain) + packer.flush(zlib.Z_SYNC_FLUSH)
    return packed[:-len(TAIL)] if len(packed) < len(plain) else None
