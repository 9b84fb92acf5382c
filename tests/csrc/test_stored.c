/* jet_stored: the lines a server adds to a stored message, and their times. */
#include "check.h"

static int stored(jet_span text, jet_stored *out) {
    static jet_span last;
    unfence(last);
    last = fenced(text);
    return jet_stored_parse(last, out);
}

static int at(jet_span text, int64_t *ns) {
    static jet_span last;
    unfence(last);
    last = fenced(text);
    return jet_stored_time(last, ns);
}

#define FROM "Nats-Stream: S\r\nNats-Subject: a.b\r\nNats-Sequence: 12\r\n"
#define TIME "Nats-Time-Stamp: 1970-01-01T00:00:01.5Z\r\n"
#define MORE "Nats-Num-Pending: 3\r\nNats-Last-Sequence: 9\r\n"

static void check_lines(void) {
    jet_stored s, again;
    CHECK(stored(S("NATS/1.0\r\n" FROM TIME "\r\n"), &s));
    CHECK(same(s.stream, S("S")) && same(s.subject, S("a.b")) && s.seq == 12);
    CHECK(s.timestamp_ns == 1500000000 && s.num_pending == 0 && s.published.len == 0);
    CHECK(same(s.lines, S(FROM TIME "\r\n")));
    CHECK(stored(S("NATS/1.0\r\nA: b\r\n" FROM TIME MORE "\r\n"), &s));
    CHECK(s.num_pending == 3 && same(s.published, S("NATS/1.0\r\nA: b\r\n")));
    CHECK(stored(S("NATS/1.0\r\n" FROM TIME MORE "Nats-UpTo-Sequence: 9\r\n\r\n"), &s));
    CHECK(s.num_pending == 3 && same(s.lines, S(FROM TIME MORE "Nats-UpTo-Sequence: 9\r\n\r\n")));
    CHECK(jet_stored_parse(s.lines, &again) && again.seq == 12 && again.published.len == 0);

    /* What was published stands in front and counts for nothing. */
    CHECK(stored(S("NATS/1.0\r\nNats-Sequence: 7\r\n" FROM TIME FROM TIME "\r\n"), &s));
    CHECK(same(s.published, S("NATS/1.0\r\nNats-Sequence: 7\r\n" FROM TIME)));

    /* Lines that look like the server's, in front of its own; and odd ends in front of them. */
    CHECK(stored(S("NATS/1.0\r\nNats-Stream: x\r\n" FROM TIME "\r\n"), &s));
    CHECK(same(s.stream, S("S")) && same(s.published, S("NATS/1.0\r\nNats-Stream: x\r\n")));
    CHECK(stored(S("NATS/1.0\r\nA: b\n" FROM TIME "\r\n"), &s));
    CHECK(same(s.published, S("NATS/1.0\r\nA: b\n")));
    CHECK(stored(S("NATS/1.0\r\nA: b\r" FROM TIME "\r\n"), &s));
    CHECK(same(s.published, S("NATS/1.0\r\nA: b\r")));
    /* A server cuts the last two bytes of a block, whatever they are. */
    CHECK(stored(S("NATS/1.0\r\nA:" FROM TIME MORE "\r\n"), &s) && s.seq == 12);
    CHECK(same(s.stream, S("S")) && same(s.published, S("NATS/1.0\r\nA:")));
    CHECK(same(s.lines, S(FROM TIME MORE "\r\n")));
    CHECK(stored(S("garba" FROM TIME "\r\n"), &s) && same(s.published, S("garba")));
    CHECK(stored(S("NATS/1.0" FROM TIME "\r\n"), &s) && same(s.published, S("NATS/1.0")));
    CHECK(stored(S("Nats-Stream: x" FROM TIME "\r\n"), &s) && same(s.stream, S("S")));
    CHECK(same(s.published, S("Nats-Stream: x")));
    CHECK(stored(S("NATS/1.0\r\nNats-Stream: " FROM TIME "\r\n"), &s) && same(s.stream, S("S")));
    CHECK(stored(S("Nats-Stream: S\r\nNats-Subject: a b\r\nNats-Sequence: 12\r\n" TIME "\r\n"), &s));
    CHECK(same(s.subject, S("a b")) && s.published.len == 0);

    jet_span bad[] = {
        S(""), S("\r"), S("Nats-Stream: S\r\nNats-Subject: a\nb\r\nNats-Sequence: 12\r\n" TIME "\r\n"),
        S(FROM TIME "\r\nx"), S(FROM TIME "Nats-Num-Pending: 3\r\n"), S(FROM TIME "\n\n"),
        S(FROM TIME "Nats-Last-Sequence: 9\r\nNats-Num-Pending: 3\r\n\r\n"), S("\r\n"),
        S("NATS/1.0\r\n\r\n"), S("NATS/1.0 404 None\r\n\r\n"),
        S("NATS/1.0\r\n" FROM TIME), S("NATS/1.0\r\n" FROM "\r\n"), S("NATS/1.0\r\n" TIME "\r\n"),
        S("NATS/1.0\r\n" FROM TIME "A: b\r\n\r\n"), S("x\n" FROM TIME "\r\n "),
        S("Nats-Subject: a\r\nNats-Sequence: 1\r\n" TIME "\r\n"),
        S("Nats-Stream: S\r\nNats-Sequence: 1\r\n" TIME "\r\n"),
        S("Nats-Stream: S\r\nNats-Subject: a\r\n" TIME "\r\n"),
        S("Nats-Stream: S\r\nNats-Subject: a\r\nNats-Sequence: -1\r\n" TIME "\r\n"),
        S("Nats-Stream: a b\r\nNats-Subject: a\r\nNats-Sequence: 1\r\n" TIME "\r\n"),
        S("ANats-Stream:S\r\nNats-Subject: a\r\nNats-Sequence: 1\r\n" TIME "\r\n"),
        S(FROM "Nats-Time-Stamp: yesterday\r\n\r\n"), S(FROM TIME "Nats-Num-Pending: x\r\n\r\n"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(!stored(bad[i], &s));
    stored(S(""), &s);
}

static void check_times(void) {
    int64_t ns;
    CHECK(at(S("1970-01-01T00:00:00Z"), &ns) && ns == 0);
    CHECK(at(S("1969-12-31t23:59:59.999999999z"), &ns) && ns == -1);
    CHECK(at(S("2026-11-21T02:53:06.547204964Z"), &ns) && ns == 1795229586547204964);
    CHECK(at(S("2026-11-21T04:23:06.5472049649999+01:30"), &ns) && ns == 1795229586547204964);
    CHECK(at(S("2026-11-20T21:53:06.547204964-05:00"), &ns) && ns == 1795229586547204964);
    CHECK(at(S("2000-02-29T12:00:00Z"), &ns) && ns == 951825600000000000);
    CHECK(at(S("1678-01-01T00:00:00+99:99"), &ns) && at(S("2261-12-31T23:59:59.9-99:99"), &ns));

    jet_span bad[] = {
        S(""), S("now"), S("2026"), S("2026-11-21"), S("2026-11-21T02:53:06"), S("2026-11-21 02:53:06Z"),
        S("2026-11-21T02:53:06ZZ"), S("2026-11-21T02:53:06.Z"), S("2026-11-21T02:53:06+1:00"),
        S("2026-11-21T02:53:06+0100"), S("2026-11-21T02:53:06+01:0"), S("2026-00-21T02:53:06Z"),
        S("2026-13-21T02:53:06Z"), S("2026-11-00T02:53:06Z"), S("2026-11-31T02:53:06Z"),
        S("2100-02-29T00:00:00Z"), S("2026-11-21T24:00:00Z"), S("2026-11-21T00:60:00Z"),
        S("2026-11-21T00:00:60Z"), S("1677-12-31T00:00:00Z"), S("2262-01-01T00:00:00Z"),
        S("0001-01-01T00:00:00Z"), S("2026/11/21T00:00:00Z"), S("2026-11/21T00:00:00Z"),
        S("2026-11-21T00.00:00Z"), S("2026-11-21T00:00.00Z"), S("2026-11-21T00:00:00\0"),
        S("2026-11-21T0x:00:00Z"), S("2026-11-21T00:0x:00Z"), S("2026-11-21T00:00:0xZ"),
        S("2026-1x-21T00:00:00Z"), S("2026-11-2xT00:00:00Z"), S("x026-11-21T02:53:06Z"),
        S("20x6-11-21T02:53:06Z"), S("2026-11-21T02:53:0"), S("2026-11-21T02:53:06+0x:00"),
        S("2026-11-21T02:53:06+00:x0"), S("2026-11-21T02:53:06+00.00"), S("2026-11-21T02:53:06+00:00x"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(!at(bad[i], &ns));
    at(S(""), &ns);
}

void suite_stored(void) {
    check_lines();
    check_times();
}
