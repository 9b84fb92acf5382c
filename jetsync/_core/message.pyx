"""Msg: one received message that owns its bytes. Headers and reply are decoded when asked for."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cpython.weakref cimport PyWeakref_NewRef
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

from jetsync._counted import counted
from jetsync._core.csrc cimport (
    JET_OK, bytes_of, jet_header_description, jet_jsack, jet_jsack_parse, jet_puback,
    jet_puback_parse, jet_span, span_of, span_of_bytes,
)
from jetsync._core.encoding cimport (
    PyUnicode_1BYTE_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_COMPACT_ASCII,
)
from jetsync._core.headers cimport received

from json import loads as json_value

from jetsync.errors import ConfigError, NotJetStreamMessageError
from jetsync.headers import Headers


cdef extern from *:
    """
    static PyObject *jetsync_new(PyObject *type, PyObject *empty) {
        return ((PyTypeObject *)type)->tp_new((PyTypeObject *)type, empty, NULL);
    }
    """
    object jetsync_new(object type, object empty)


cdef extern from *:
    """
    /* The object of a weak reference; None when it is gone. */
    static PyObject *jetsync_follow(PyObject *weak) {
        PyObject *found;
    #if PY_VERSION_HEX >= 0x030D0000
        if (weak != Py_None && PyWeakref_GetRef(weak, &found) == 1) return found;
        PyErr_Clear();
        found = Py_None;
    #else
        found = weak == Py_None ? Py_None : PyWeakref_GET_OBJECT(weak);
    #endif
        Py_INCREF(found);
        return found;
    }
    """
    object jetsync_follow(object weak)


cdef extern from *:
    """
    #include <structmember.h>
    #define jetsync_subject_at(m) ((char *)&(m)->subject - (char *)(m))
    #define jetsync_data_at(m) ((char *)&(m)->data - (char *)(m))
    #define jetsync_raw_headers_at(m) ((char *)&(m)->raw_headers - (char *)(m))
    /* Show a field of a type as a member. A getter would be called for each access; a member the
     * interpreter reads by itself (from 3.11 on). The field is an object and never NULL. */
    static int jetsync_show(PyObject *type, const char *name, Py_ssize_t offset) {
        PyTypeObject *t = (PyTypeObject *)type;
        PyMemberDef *def = PyMem_Calloc(1, sizeof *def); /* lives as long as the type */
        if (def == NULL) return PyErr_NoMemory(), -1;
        def->name = name;
        def->type = T_OBJECT_EX;
        def->flags = READONLY;
        def->offset = offset;
        PyObject *member = PyDescr_NewMember(t, def);
        if (member == NULL) return -1;
        int status = PyDict_SetItemString(t->tp_dict, name, member);
        Py_DECREF(member);
        PyType_Modified(t);
        return status;
    }
    """
    int jetsync_show(object type, const char *name, Py_ssize_t offset) except -1
    Py_ssize_t jetsync_subject_at(Msg m)
    Py_ssize_t jetsync_data_at(Msg m)
    Py_ssize_t jetsync_raw_headers_at(Msg m)


cdef tuple EMPTY = ()
cdef object NO_HEADERS = Headers()


cdef class AckStates:
    def __cinit__(self, size_t count, uint8_t flags, double since):
        self.flags = <uint8_t *>calloc(count, 1)
        if self.flags == NULL:
            raise MemoryError("no memory for the acknowledgement states of a batch")
        memset(self.flags, flags, count)
        self.count = count
        self.since = since

    def __dealloc__(self):
        free(self.flags)


@cython.freelist(256)
@cython.no_gc
cdef class Msg:
    """One received message.

    It is immutable and owns its bytes, so any thread may keep and read it. ``subject`` is a str,
    ``data`` the payload, ``raw_headers`` the header block as it came, ``size`` the bytes of headers
    and payload. ``headers`` is parsed at its first use. ``status`` is the inline status (ADR-4) that
    the server sent, or 0: with a payload, from a consumer or from a stream it is an ordinary
    message, also when its header block begins like a status.
    """

    def __cinit__(self):
        self.subject = ""
        self.data = b""
        self.raw_headers = b""
        self.reply_bytes = b""

    @classmethod
    def _make(cls, subject, data=b"", reply=None, raw_headers=b"", int status=0, *, owner=None):
        """Make a message from its parts; for upper rooms that get one in another form."""
        cdef Msg m = cls.__new__(cls)
        m.subject = subject
        m.data = data
        m.raw_headers = raw_headers
        m.status = status
        m._owner = owner
        if reply is not None:
            m.reply_bytes = reply.encode("utf-8", "surrogateescape")
        return m

    @property
    def reply(self):
        """The subject an answer goes to, or None."""
        if self.reply_text is None:
            if not self.reply_bytes:
                return None
            self.reply_text = self.reply_bytes.decode("utf-8", "surrogateescape")
        return self.reply_text

    @property
    def headers(self):
        """The headers; empty, never None, without any. Malformed lines are counted in
        `headers.malformed`, and `raw_headers` has every byte."""
        if self.parsed is None:
            self.parsed = received(self.raw_headers) if self.raw_headers else NO_HEADERS
        return self.parsed

    @property
    def description(self):
        """The text after the inline status, for example "No Messages"; "" for a message."""
        if self.status == 0:
            return ""
        return bytes_of(jet_header_description(span_of_bytes(self.raw_headers))).decode(
            "utf-8", "replace"
        )

    @property
    def size(self):
        """Bytes of subject, reply, headers and payload together."""
        return (len(self.subject.encode("utf-8", "surrogateescape")) + len(self.reply_bytes)
                + len(self.raw_headers) + len(self.data))

    def json(self):
        """Return the value of a payload that is JSON. Raises ValueError for any other (the
        json.JSONDecodeError or UnicodeDecodeError of the standard library). Does not block."""
        return json_value(self.data)

    def respond(self, data=b"", headers=None):
        """Publish an answer to `reply`. Does not wait for the network.

        Raises ConfigError when the message carries no reply subject, and what
        `Connection.publish` raises.
        """
        if not self.reply_bytes:
            raise ConfigError("the message has no reply subject: its sender expects no response")
        if self._owner is None:
            raise ConfigError("the message is not bound to a connection")
        self._owner.publish(self.reply, data, headers=headers)

    def __repr__(self):
        return (f"{type(self).__name__}(subject={self.subject!r}, reply={self.reply!r}, "
                f"{counted(len(self.data), 'byte')})")

    def __reduce__(self):
        return (_rebuild, (type(self), self.subject, self.data, self.reply_bytes,
                           self.raw_headers, self.status))


cdef int show_fields() except -1:
    cdef Msg m = Msg.__new__(Msg)
    jetsync_show(Msg, b"subject", jetsync_subject_at(m))
    jetsync_show(Msg, b"data", jetsync_data_at(m))
    jetsync_show(Msg, b"raw_headers", jetsync_raw_headers_at(m))
    return 0


show_fields()


def _rebuild(type_, subject, data, reply, raw_headers, status):
    """Unpickle: the copy has all the bytes but no connection."""
    cdef Msg m = type_.__new__(type_)
    m.subject = subject
    m.data = data
    m.reply_bytes = reply
    m.raw_headers = raw_headers
    m.status = status
    return m


cdef inline bint is_ascii_of(str text, jet_span s) noexcept:
    """Whether they are equal, and ASCII. One object is looked at and no copy of its bytes, which for
    thousands of subscriptions would not be in the processor's cache either."""
    return (PyUnicode_IS_COMPACT_ASCII(text) and <size_t>PyUnicode_GET_LENGTH(text) == s.len
            and memcmp(PyUnicode_1BYTE_DATA(text), s.ptr, s.len) == 0)


cdef class MessageFactory:
    def __init__(self, msg_type=Msg, owner=None, context=None):
        self.msg_type = msg_type
        self.plain = msg_type is Msg
        # Weak: the reader thread knows all mailboxes, and must not keep a forgotten connection
        # alive. Every message holds its connection, so a message that is in use can be answered.
        self.owner = None if owner is None else PyWeakref_NewRef(owner, None)
        self.context = None if context is None else PyWeakref_NewRef(context, None)
        self.last_subject = ""

    cdef Msg make(self, jet_record *r):
        """Build one message; the record may go away afterwards."""
        cdef Msg m
        if self.plain:
            m = Msg.__new__(Msg)
        else:
            m = <Msg>jetsync_new(self.msg_type, EMPTY)
        # Most subscriptions see the same subject many times in a row: keep its str.
        if not is_ascii_of(self.last_subject, r.subject):
            self.last_subject = PyUnicode_DecodeUTF8(
                <const char *>r.subject.ptr, r.subject.len, "surrogateescape")
        m.subject = self.last_subject
        if r.payload.len:
            m.data = PyBytes_FromStringAndSize(<const char *>r.payload.ptr, r.payload.len)
        if r.reply.len:
            m.reply_bytes = PyBytes_FromStringAndSize(<const char *>r.reply.ptr, r.reply.len)
        if r.header.len:
            m.raw_headers = PyBytes_FromStringAndSize(<const char *>r.header.ptr, r.header.len)
        m.status = r.status
        m._owner = jetsync_follow(self.owner)
        m._context = jetsync_follow(self.context)
        return m

    cdef tuple owners(self):
        """The objects that have to live for messages that can be answered."""
        return jetsync_follow(self.owner), jetsync_follow(self.context)


def parse_jsack(reply):
    """Return the nine fields of an acknowledgement subject (str or bytes) as a tuple:
    (domain, account_hash, stream, consumer, num_delivered, stream_seq, consumer_seq,
    timestamp_ns, num_pending). Raises NotJetStreamMessageError."""
    cdef bytes raw = (<str>reply).encode("utf-8", "surrogateescape") if isinstance(reply, str) else (
        reply or b"")
    return jsack_tuple(raw)


def message_jsack(Msg msg not None):
    """The same for the reply of a message, without decoding it first."""
    return jsack_tuple(msg.reply_bytes)


def delivery_of(Msg msg not None):
    """Return num_delivered, stream_seq, consumer_seq and timestamp_ns of a message. Raises
    NotJetStreamMessageError."""
    cdef jet_jsack a
    parse_ack(msg.reply_bytes, &a)
    return a.num_delivered, a.stream_seq, a.consumer_seq, a.timestamp_ns


cdef int parse_ack(bytes raw, jet_jsack *a) except -1:
    if jet_jsack_parse(span_of_bytes(raw), a) != JET_OK:
        raise NotJetStreamMessageError(
            "not a message from a JetStream consumer: its reply subject is not a $JS.ACK subject"
        )
    return 0


cdef tuple jsack_tuple(bytes raw):
    cdef jet_jsack a
    parse_ack(raw, &a)
    return (
        bytes_of(a.domain).decode("utf-8", "replace"),
        bytes_of(a.account_hash).decode("utf-8", "replace"),
        bytes_of(a.stream).decode("utf-8", "replace"),
        bytes_of(a.consumer).decode("utf-8", "replace"),
        a.num_delivered, a.stream_seq, a.consumer_seq, a.timestamp_ns, a.num_pending,
    )


def parse_puback(bytes json not None):
    """Read the usual publish acknowledgement: (stream, seq, duplicate), or None for any other text."""
    cdef jet_puback a
    if not jet_puback_parse(span_of_bytes(json), &a):
        return None
    return bytes_of(a.stream).decode("utf-8", "replace"), a.seq, bool(a.duplicate)
