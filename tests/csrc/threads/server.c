/* The server's end of a link: whole frames in order come in, messages and lines go out. */
#include "world.h"

size_t frames_arrived;

static size_t put_text(uint8_t *to, size_t n, const char *text) {
    memcpy(to + n, text, strlen(text));
    return n + strlen(text);
}

/* "MSG <subject> <sid> <n>\r\n<number>\r\n" */
static size_t put_message(uint8_t *to, size_t n, const char *subject, uint64_t sid, uint64_t number) {
    uint8_t digits[20];
    size_t length = jet_encode_u64(digits, number);
    n = put_text(to, n, "MSG ");
    n = put_text(to, n, subject);
    to[n++] = ' ';
    n += jet_encode_u64(to + n, sid);
    to[n++] = ' ';
    n += jet_encode_u64(to + n, length);
    n = put_text(to, n, "\r\n");
    memcpy(to + n, digits, length);
    return put_text(to, n + length, "\r\n");
}

static int send_all(int fd, const uint8_t *bytes, size_t n) {
    while (n) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent <= 0) return 0;
        bytes += sent;
        n -= (size_t)sent;
    }
    return 1;
}

/* Send bytes of the link, on a WebSocket as a frame; now and then with a ping before it. */
static int send_part(server *s, const uint8_t *bytes, size_t n, int ping) {
    uint8_t head[6] = {0x89, 0, 0x82, 126, (uint8_t)(n >> 8), (uint8_t)n};
    if (!s->framed) return send_all(s->fd, bytes, n);
    if (n < 126) head[4] = 0x82, head[5] = (uint8_t)n;
    size_t from = n < 126 ? 4 : 2;
    return (!ping || send_all(s->fd, head, 2)) && send_all(s->fd, head + from, 6 - from) &&
           send_all(s->fd, bytes, n);
}

static void *write_rounds(void *which) {
    static uint64_t number;
    server *s = which;
    uint8_t text[4096];
    char name[3 + JET_TOKEN_MAX + 1];
    for (size_t i = 0; i < rounds; i++) {
        size_t n = 0;
        number++;
        for (int k = 0; k < QUEUES; k++) n = put_message(text, n, "s", sids[k], number);
        uint64_t asked = atomic_load(&token);
        if (asked) {
            memcpy(name, "_R.", 3);
            name[3 + jet_token_write(&in.key, asked, (uint8_t *)name + 3)] = 0;
            n = put_message(text, n, name, REPLY_SID, number);
        }
        n = put_message(text, n, "s", atomic_load_explicit(&brief_sid, memory_order_relaxed), number);
        if (number % 7 == 0) n = put_text(text, n, "PING\r\n");
        if (number % 50 == 0) n = put_text(text, n, "PONG\r\nINFO {}\r\n");
        n = put_message(text, n, "s", sids[0], number);
        /* In two pieces, cut somewhere. */
        size_t at = number % n;
        if (!send_part(s, text, at, number % 5 == 0)) break;
        if (number % 3 == 0) sched_yield();
        if (number % 64 == 0) usleep(300); /* time for takers to wait, and for followers to read */
        if (!send_part(s, text + at, n - at, 0)) break;
    }
    shutdown(s->fd, SHUT_RDWR);
    return NULL;
}

/* One frame at the start of `p`; returns its size, 0 when it is not whole. */
static size_t frame(server *s, const uint8_t *p, size_t n) {
    const uint8_t *lf = memchr(p, '\n', n);
    uint64_t size = 0, number = 0;
    if (!lf) return 0;
    size_t line = (size_t)(lf + 1 - p);
    CHECK(line >= 6 && lf[-1] == '\r');
    if (p[0] != 'P' || p[1] != 'U') {
        CHECK(!memcmp(p, "PING\r\n", 6) || !memcmp(p, "PONG\r\n", 6) || !memcmp(p, "SUB ", 4) ||
              !memcmp(p, "UNSUB ", 6));
        return line;
    }
    CHECK(line > 8 && (p[4] == 'p' || p[4] == 'a') && p[6] == ' ');
    const uint8_t *at = p + 7;
    if (*at == '_') at = (const uint8_t *)memchr(at, ' ', n - 7) + 1; /* behind a reply */
    CHECK(jet_scan_leading_u64(jet_span_of(at, (size_t)(lf - at)), &size));
    if (n < line + size + 2) return 0;
    CHECK(!memcmp(p + line + size, "\r\n", 2));
    CHECK(jet_scan_leading_u64(jet_span_of(p + line, size), &number));
    if (p[4] == 'p') { /* an acknowledgement ('a') may come again */
        CHECK(number > s->published[p[5] - '0']);
        s->published[p[5] - '0'] = number;
    }
    return line + size + 2;
}

/* Append to `out` what whole frames of a client hold. */
static void unframe(jet_buf *raw, jet_buf *out) {
    for (;;) {
        const uint8_t *p = jet_buf_ptr(raw);
        size_t have = jet_buf_len(raw), head = 2, n = 0;
        if (have < 2) return;
        CHECK(p[1] & 0x80 && (p[0] == 0x82 || (p[0] == 0x8a && p[1] == 0x80)));
        head += (p[1] & 0x7f) == 126 ? 2 : (p[1] & 0x7f) == 127 ? 8 : 0;
        if (have < head + 4) return;
        if (head == 2) n = p[1] & 0x7f;
        for (size_t i = 2; i < head; i++) n = n << 8 | p[i];
        if (have < head + 4 + n) return;
        for (size_t i = 0; i < n; i++) {
            uint8_t plain = p[head + 4 + i] ^ p[head + (i & 3)];
            CHECK(jet_buf_append(out, &plain, 1) == JET_OK);
        }
        jet_buf_consume(raw, head + 4 + n);
    }
}

static void *read_frames(void *which) {
    server *s = which;
    jet_buf buf, raw, *into = s->framed ? &raw : &buf;
    jet_buf_init(&buf);
    jet_buf_init(&raw);
    for (size_t reads = 0;; reads++) {
        uint8_t *to = jet_buf_reserve(into, 2048);
        CHECK(to);
        ssize_t got = recv(s->fd, to, 2048, 0);
        if (got <= 0) break;
        jet_buf_commit(into, (size_t)got);
        if (s->framed) unframe(&raw, &buf);
        size_t used;
        while (jet_buf_len(&buf) && (used = frame(s, jet_buf_ptr(&buf), jet_buf_len(&buf)))) {
            jet_buf_consume(&buf, used);
            frames_arrived++;
        }
        if (reads % 16 == 0) usleep(200); /* a server that takes data slowly, now and then */
    }
    jet_buf_free(&buf);
    jet_buf_free(&raw);
    return NULL;
}

void server_start(server *s, int fd) {
    s->fd = fd;
    pthread_create(&s->reading, NULL, read_frames, s);
    pthread_create(&s->writing, NULL, write_rounds, s);
}

void server_join(server *s) {
    pthread_join(s->writing, NULL);
    pthread_join(s->reading, NULL);
    close(s->fd);
}
