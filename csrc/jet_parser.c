#include "jet_parser.h"

#include <string.h>

#include "jet_header.h"
#include "jet_jsack.h"
#include "jet_scan.h"
#include "jet_stored.h"

void jet_parser_init(jet_parser *p, size_t max_size) {
    p->scanned = 0;
    p->need = 1;
    p->max_size = max_size;
}

static int need_more(jet_parser *p, size_t scanned, size_t need) {
    p->scanned = scanned;
    p->need = need;
    return 0;
}

/* Find the end of the first line. Returns 1 and its length without CRLF, 0 for "not there yet". */
static int find_line(jet_parser *p, jet_span bytes, size_t *len) {
    const uint8_t *lf = NULL;
    if (bytes.len > p->scanned)
        lf = memchr(bytes.ptr + p->scanned, '\n', bytes.len - p->scanned);
    size_t seen = lf ? (size_t)(lf - bytes.ptr) : bytes.len;
    if (seen > JET_MAX_LINE && (seen > JET_MAX_INFO || bytes.ptr[0] != 'I')) return JET_ERR_LINE;
    if (lf == NULL) return need_more(p, bytes.len, bytes.len + 1);
    if (seen == 0 || lf[-1] != '\r') return JET_ERR_LINE;
    *len = seen - 1;
    return 1;
}

/* Does the line begin with this verb, followed by a blank or nothing? Fills what follows it. */
static int verb_is(jet_span line, const char *verb, size_t n, jet_span *rest) {
    if (line.len < n || memcmp(line.ptr, verb, n) != 0) return 0;
    if (line.len > n && !jet_is_blank(line.ptr[n])) return 0;
    *rest = jet_span_of(line.ptr + n, line.len - n);
    return 1;
}

static jet_span trim(jet_span s) {
    while (s.len && jet_is_blank(s.ptr[0])) s.ptr++, s.len--;
    while (s.len && jet_is_blank(s.ptr[s.len - 1])) s.len--;
    return s;
}

static int simple_line(jet_parser *p, jet_op op, jet_span text, size_t line_len, jet_frame *f,
                       size_t *consumed) {
    memset(f, 0, sizeof *f);
    f->op = op;
    f->payload = trim(text);
    p->scanned = 0;
    p->need = 1;
    *consumed = line_len + 2;
    return 1;
}

#define MAX_WORDS 5 /* of a message line, without the verb */

/* Split a message line as servers write it: one blank between words, and nothing odd in them.
 * Returns how many words, or 0 for every other line, which then is read with care. */
static int split_usual(jet_span bytes, int *has_header, jet_span word[], size_t *line_len) {
    if (bytes.len < 5) return 0;
    *has_header = bytes.ptr[0] == 'H';
    const uint8_t *p = bytes.ptr + *has_header;
    const uint8_t *end = bytes.ptr + bytes.len;
    const uint8_t *stop;
    int n = 0;
    if (memcmp(p, "MSG ", 4) != 0) return 0;
    p += 4;
    do {
        stop = jet_find_blank(p, end);
        if (stop == NULL || stop == p || n == MAX_WORDS) return 0;
        word[n++] = jet_span_of(p, (size_t)(stop - p));
        p = stop + 1;
    } while (*stop == ' ');
    *line_len = (size_t)(stop - bytes.ptr);
    return *stop == '\r' && p < end && *p == '\n' && *line_len < JET_MAX_LINE ? n : 0;
}

/* The status of a frame, or 0 for a message: see jet_parser.h. */
static int status_of(const jet_frame *f) {
    jet_stored stored;
    if (f->payload.len || jet_jsack_is_reply(f->reply)) return 0;
    int status = jet_header_status(f->header);
    return status && !jet_stored_parse(f->header, &stored) ? status : 0;
}

/* <subject> <sid> [reply] <size> after MSG, <subject> <sid> [reply] <header size> <size> after HMSG */
static int message(jet_parser *p, const jet_span word[], int n, int has_header, size_t line_len,
                   jet_span bytes, jet_frame *f, size_t *consumed) {
    int fixed = has_header ? 4 : 3;
    if (n != fixed && n != fixed + 1) return JET_ERR_ARGS;

    uint64_t total, header = 0;
    f->op = JET_OP_MSG;
    f->status = 0;
    f->subject = word[0];
    f->reply = n > fixed ? word[2] : jet_span_of(NULL, 0);
    if (!jet_scan_u64(word[1], &f->sid)) return JET_ERR_ARGS;
    if (!jet_scan_u64(word[n - 1], &total) || total > p->max_size) return JET_ERR_SIZE;
    if (has_header && (!jet_scan_u64(word[n - 2], &header) || header > total)) return JET_ERR_SIZE;

    size_t body = line_len + 2;
    size_t whole = body + (size_t)total + 2;
    /* The line is complete: next time the search for its end finds it at once. */
    if (bytes.len < whole) return need_more(p, line_len, whole);
    if (bytes.ptr[whole - 2] != '\r' || bytes.ptr[whole - 1] != '\n') return JET_ERR_CRLF;
    f->header = jet_span_of(bytes.ptr + body, (size_t)header);
    f->payload = jet_span_of(bytes.ptr + body + header, (size_t)(total - header));
    if (has_header) f->status = status_of(f);
    p->scanned = 0;
    p->need = 1;
    *consumed = whole;
    return 1;
}

static int split_with_care(jet_span rest, jet_span word[]) {
    int n = 0;
    while (n <= MAX_WORDS && jet_scan_token(&rest, &word[n])) n++;
    return n;
}

int jet_parser_next(jet_parser *p, jet_span bytes, jet_frame *f, size_t *consumed) {
    if (bytes.len < p->need) return 0;
    jet_span word[MAX_WORDS + 1];
    size_t len = 0;
    int has_header;
    /* Bytes that were searched are not searched again when more bytes come. */
    int n = p->scanned ? 0 : split_usual(bytes, &has_header, word, &len);
    if (n) return message(p, word, n, has_header, len, bytes, f, consumed);

    int found = find_line(p, bytes, &len);
    if (found != 1) return found;
    jet_span line = jet_span_of(bytes.ptr, len);
    jet_span rest;
    has_header = verb_is(line, "HMSG", 4, &rest);
    if (has_header || verb_is(line, "MSG", 3, &rest)) {
        n = split_with_care(rest, word);
        return message(p, word, n, has_header, len, bytes, f, consumed);
    }
    if (verb_is(line, "PING", 4, &rest)) return simple_line(p, JET_OP_PING, rest, len, f, consumed);
    if (verb_is(line, "PONG", 4, &rest)) return simple_line(p, JET_OP_PONG, rest, len, f, consumed);
    if (verb_is(line, "INFO", 4, &rest)) return simple_line(p, JET_OP_INFO, rest, len, f, consumed);
    if (verb_is(line, "-ERR", 4, &rest)) return simple_line(p, JET_OP_ERR, rest, len, f, consumed);
    if (verb_is(line, "+OK", 3, &rest)) return simple_line(p, JET_OP_OK, rest, len, f, consumed);
    return JET_ERR_OP;
}
