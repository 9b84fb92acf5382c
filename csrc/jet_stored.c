#include "jet_stored.h"

#include <string.h>

#include "jet_scan.h"

static const char VERSION_LINE[] = "NATS/1.0\r\n";

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

int jet_stored_parse(jet_span block, jet_stored *out) {
    const uint8_t *end = block.ptr + block.len;
    uint64_t ignored;
    jet_span time;
    if (block.len < 2 || memcmp(block.ptr + block.len - 2, "\r\n", 2) != 0) return 0;
    block.len -= 2;
    out->num_pending = 0;
    /* Only answers of many messages have the last three. */
    cut_number(&block, "Nats-UpTo-Sequence: ", &ignored);
    cut_number(&block, "Nats-Last-Sequence: ", &ignored);
    cut_number(&block, "Nats-Num-Pending: ", &out->num_pending);
    if (!cut_line(&block, "Nats-Time-Stamp: ", &time) || !jet_stored_time(time, &out->timestamp_ns))
        return 0;
    if (!cut_number(&block, "Nats-Sequence: ", &out->seq)) return 0;
    if (!cut_line(&block, "Nats-Subject: ", &out->subject)) return 0;
    if (!cut_line(&block, "Nats-Stream: ", &out->stream)) return 0;
    out->published = block;
    out->lines = jet_span_of(block.ptr + block.len, (size_t)(end - block.ptr) - block.len);
    if (jet_span_equal(block, jet_span_of((const uint8_t *)VERSION_LINE, sizeof VERSION_LINE - 1)))
        out->published.len = 0;
    return 1;
}

/* -- times ------------------------------------------------------------------------------------- */

/* Cut a number of exactly n digits off the front. */
static int cut_digits(jet_span *s, size_t n, int64_t *number) {
    if (s->len < n) return 0;
    *number = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned digit = (unsigned)s->ptr[i] - '0';
        if (digit > 9) return 0;
        *number = *number * 10 + digit;
    }
    s->ptr += n;
    s->len -= n;
    return 1;
}

static int cut_one_of(jet_span *s, const char *set, char *found) {
    if (s->len == 0 || s->ptr[0] == 0 || strchr(set, s->ptr[0]) == NULL) return 0;
    *found = (char)s->ptr[0];
    s->ptr++;
    s->len--;
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
    char point;
    size_t n = 0;
    *ns = 0;
    if (!cut_one_of(s, ".", &point)) return 1;
    for (; n < s->len && (unsigned)s->ptr[n] - '0' <= 9; n++)
        if (n < 9) *ns = *ns * 10 + (s->ptr[n] - '0');
    for (size_t i = n; i < 9; i++) *ns *= 10;
    s->ptr += n;
    s->len -= n;
    return n > 0;
}

/* Cut the zone, and nothing may follow: "Z" or how far the clock is ahead, in seconds. */
static int cut_zone(jet_span *s, int64_t *ahead) {
    char sign, colon;
    int64_t hours, minutes;
    *ahead = 0;
    if (!cut_one_of(s, "Zz+-", &sign)) return 0;
    if (sign == '+' || sign == '-') {
        if (!cut_digits(s, 2, &hours) || !cut_one_of(s, ":", &colon) || !cut_digits(s, 2, &minutes))
            return 0;
        *ahead = (hours * 60 + minutes) * (sign == '+' ? 60 : -60);
    }
    return s->len == 0;
}

int jet_stored_time(jet_span text, int64_t *ns) {
    char c;
    int64_t year, month, day, hour, minute, second, below, ahead;
    if (!cut_digits(&text, 4, &year) || !cut_one_of(&text, "-", &c) ||
        !cut_digits(&text, 2, &month) || !cut_one_of(&text, "-", &c) ||
        !cut_digits(&text, 2, &day) || !cut_one_of(&text, "Tt", &c) ||
        !cut_digits(&text, 2, &hour) || !cut_one_of(&text, ":", &c) ||
        !cut_digits(&text, 2, &minute) || !cut_one_of(&text, ":", &c) ||
        !cut_digits(&text, 2, &second) || !cut_fraction(&text, &below) || !cut_zone(&text, &ahead))
        return 0;
    if (year < 1678 || year > 2261 || month < 1 || month > 12 || day < 1 ||
        day > days_of_month(year, month) || hour > 23 || minute > 59 || second > 59)
        return 0;
    int64_t seconds = ((days_since_epoch(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    *ns = (seconds - ahead) * 1000000000 + below;
    return 1;
}
