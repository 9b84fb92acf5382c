#include "jet_stored.h"

#include <string.h>

#include "jet_scan.h"

/* The version line before the lines of a message that was published without headers. */
static const char VERSION_LINE[] = "NATS/1.0\r\n";
#define VERSION_LINE_LEN (sizeof VERSION_LINE - 1)

static int cut_time(jet_span *s, int64_t *ns);

static void advance(jet_span *s, size_t n) {
    s->ptr += n;
    s->len -= n;
}

static void finish(jet_span block, size_t published, jet_stored *out) {
    out->published = jet_span_of(block.ptr, published);
    out->lines = jet_span_of(block.ptr + published, block.len - published);
    if (published == VERSION_LINE_LEN && memcmp(block.ptr, VERSION_LINE, VERSION_LINE_LEN) == 0)
        out->published.len = 0;
}

/* -- from the front: the lines exactly as servers write them ------------------------------------ */

static int cut_text(jet_span *s, const char *text, size_t n) {
    if (s->len < n || memcmp(s->ptr, text, n) != 0) return 0;
    advance(s, n);
    return 1;
}
#define CUT(s, text) cut_text(s, text, sizeof text - 1)

static int cut_word(jet_span *s, jet_span *word) {
    const uint8_t *end = jet_find_blank(s->ptr, s->ptr + s->len);
    if (end == NULL) return 0;
    *word = jet_span_of(s->ptr, (size_t)(end - s->ptr));
    advance(s, word->len);
    return 1;
}

static int cut_u64(jet_span *s, uint64_t *number) {
    size_t digits = jet_scan_leading_u64(*s, number);
    advance(s, digits);
    return digits > 0;
}

/* Read the lines at the start of `s`, and nothing may follow them. */
static int read_lines(jet_span s, jet_stored *out) {
    uint64_t ignored;
    out->num_pending = 0;
    /* Only answers of many messages have the last three. */
    return CUT(&s, "Nats-Stream: ") && cut_word(&s, &out->stream) &&
           CUT(&s, "\r\nNats-Subject: ") && cut_word(&s, &out->subject) &&
           CUT(&s, "\r\nNats-Sequence: ") && cut_u64(&s, &out->seq) &&
           CUT(&s, "\r\nNats-Time-Stamp: ") && cut_time(&s, &out->timestamp_ns) &&
           (!CUT(&s, "\r\nNats-Num-Pending: ") || cut_u64(&s, &out->num_pending)) &&
           (!CUT(&s, "\r\nNats-Last-Sequence: ") || cut_u64(&s, &ignored)) &&
           (!CUT(&s, "\r\nNats-UpTo-Sequence: ") || cut_u64(&s, &ignored)) &&
           CUT(&s, "\r\n\r\n") && s.len == 0;
}

/* Try at the start of each line. Names within these lines differ, so they begin at one place only. */
static int parse_forwards(jet_span block, jet_stored *out) {
    jet_span rest = block;
    for (;;) {
        if (read_lines(rest, out)) {
            finish(block, block.len - rest.len, out);
            return 1;
        }
        const uint8_t *end = rest.len ? memchr(rest.ptr, '\n', rest.len) : NULL;
        if (end == NULL) return 0;
        advance(&rest, (size_t)(end - rest.ptr) + 1);
    }
}

/* -- from the end: where a publisher left odd lines in front of them --------------------------- */

/* Cut the line "name: value" off the end of a block. `name` includes colon and blank. The value is
 * what follows it, up to the line's end; it holds no CR and no LF. */
static int cut_line(jet_span *block, const char *name, jet_span *value) {
    const uint8_t *first = block->ptr;
    if (block->len < 2 || first[block->len - 2] != '\r' || first[block->len - 1] != '\n') return 0;
    const uint8_t *end = first + block->len - 2;
    const uint8_t *p = end;
    while (p > first && p[-1] != '\n' && p[-1] != '\r') p--;
    size_t line = (size_t)(end - p), n = strlen(name);
    if (line < n || memcmp(p, name, n) != 0) return 0;
    *value = jet_span_of(p + n, line - n);
    block->len = (size_t)(p - first);
    return 1;
}

static int cut_number(jet_span *block, const char *name, uint64_t *number) {
    jet_span rest = *block, value;
    if (!cut_line(&rest, name, &value) || !jet_scan_u64(value, number)) return 0;
    *block = rest;
    return 1;
}

/* Cut the server's first line off the end of a block. It follows the published block but for its
 * last two bytes, wherever in a line that ends. A stream's name holds no blank. */
static int cut_stream(jet_span *block, jet_span *stream) {
    static const char name[] = "Nats-Stream: ";
    const size_t n = sizeof name - 1;
    const uint8_t *first = block->ptr;
    if (block->len < 2 || memcmp(first + block->len - 2, "\r\n", 2) != 0) return 0;
    const uint8_t *end = first + block->len - 2;
    const uint8_t *p = end;
    while (p > first && p[-1] != ' ' && p[-1] != '\n' && p[-1] != '\r') p--;
    size_t before = (size_t)(p - first);
    if (before < n || memcmp(p - n, name, n) != 0) return 0;
    *stream = jet_span_of(p, (size_t)(end - p));
    block->len = before - n;
    return 1;
}

static int parse_backwards(jet_span block, jet_stored *out) {
    jet_span time, rest = block;
    uint64_t ignored;
    if (block.len < 2 || memcmp(block.ptr + block.len - 2, "\r\n", 2) != 0) return 0;
    rest.len -= 2;
    out->num_pending = 0;
    cut_number(&rest, "Nats-UpTo-Sequence: ", &ignored);
    cut_number(&rest, "Nats-Last-Sequence: ", &ignored);
    cut_number(&rest, "Nats-Num-Pending: ", &out->num_pending);
    if (!cut_line(&rest, "Nats-Time-Stamp: ", &time) || !jet_stored_time(time, &out->timestamp_ns))
        return 0;
    if (!cut_number(&rest, "Nats-Sequence: ", &out->seq)) return 0;
    if (!cut_line(&rest, "Nats-Subject: ", &out->subject)) return 0;
    if (!cut_stream(&rest, &out->stream)) return 0;
    finish(block, rest.len, out);
    return 1;
}

int jet_stored_parse(jet_span block, jet_stored *out) {
    return parse_forwards(block, out) || parse_backwards(block, out);
}

/* -- times ------------------------------------------------------------------------------------- */

/* The number that two digits are, or 100 when they are none. */
static int two_digits(const uint8_t *p) {
    unsigned tens = (unsigned)p[0] - '0', ones = (unsigned)p[1] - '0';
    return tens > 9 || ones > 9 ? 100 : (int)(tens * 10 + ones);
}

static int cut_byte(jet_span *s, char c) {
    if (s->len == 0 || s->ptr[0] != c) return 0;
    advance(s, 1);
    return 1;
}

static int is_leap(int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

static int64_t days_of_month(int64_t year, int64_t month) {
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days from 1970-01-01 in the Gregorian calendar. A year counted from March has its leap day last,
 * so the days before a month are one straight line. */
static int64_t days_since_epoch(int64_t year, int64_t month, int64_t day) {
    year -= month <= 2;
    month += month <= 2 ? 9 : -3;
    return 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719469;
}

/* Cut the part of a second off the front, if there is one: nanoseconds; more digits are dropped. */
static int cut_fraction(jet_span *s, int64_t *ns) {
    uint64_t digits = 0;
    *ns = 0;
    if (!cut_byte(s, '.')) return 1;
    size_t n = jet_scan_leading_u64(jet_span_of(s->ptr, s->len < 9 ? s->len : 9), &digits);
    *ns = (int64_t)digits;
    for (size_t i = n; i < 9; i++) *ns *= 10;
    advance(s, n);
    while (n == 9 && s->len && (unsigned)s->ptr[0] - '0' <= 9) advance(s, 1);
    return n > 0;
}

/* Cut the zone off the front: "Z" or how far the clock is ahead, in seconds. */
static int cut_zone(jet_span *s, int64_t *ahead) {
    *ahead = 0;
    if (cut_byte(s, 'Z') || cut_byte(s, 'z')) return 1;
    int sign = cut_byte(s, '+') ? 60 : cut_byte(s, '-') ? -60 : 0;
    if (!sign || s->len < 5 || s->ptr[2] != ':') return 0;
    int hours = two_digits(s->ptr), minutes = two_digits(s->ptr + 3);
    if (hours > 99 || minutes > 99) return 0;
    *ahead = (hours * 60 + minutes) * sign;
    advance(s, 5);
    return 1;
}

/* Cut an RFC 3339 time off the front. */
static int cut_time(jet_span *s, int64_t *ns) {
    const uint8_t *p = s->ptr;
    if (s->len < 19 || p[4] != '-' || p[7] != '-' || (p[10] != 'T' && p[10] != 't') ||
        p[13] != ':' || p[16] != ':')
        return 0;
    int century = two_digits(p), years = two_digits(p + 2);
    int month = two_digits(p + 5), day = two_digits(p + 8);
    int hour = two_digits(p + 11), minute = two_digits(p + 14), second = two_digits(p + 17);
    int64_t year = century * 100 + years, below, ahead;
    if (years > 99 || year < 1678 || year > 2261 || month < 1 || month > 12 || day < 1 ||
        day > days_of_month(year, month) || hour > 23 || minute > 59 || second > 59)
        return 0;
    advance(s, 19);
    if (!cut_fraction(s, &below) || !cut_zone(s, &ahead)) return 0;
    int64_t seconds = ((days_since_epoch(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    *ns = (seconds - ahead) * 1000000000 + below;
    return 1;
}

int jet_stored_time(jet_span text, int64_t *ns) { return cut_time(&text, ns) && text.len == 0; }
