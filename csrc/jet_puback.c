#include "jet_puback.h"

#include <string.h>

#include "jet_scan.h"

typedef struct cursor {
    const uint8_t *p, *end;
} cursor;

static void skip_space(cursor *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\r' || *c->p == '\n')) c->p++;
}

static int take(cursor *c, char byte) {
    skip_space(c);
    if (c->p == c->end || *c->p != (uint8_t)byte) return 0;
    c->p++;
    return 1;
}

/* A string without escapes: names of streams and domains never need any. */
static int take_string(cursor *c, jet_span *out) {
    if (!take(c, '"')) return 0;
    const uint8_t *start = c->p;
    while (c->p < c->end && *c->p != '"' && *c->p != '\\' && *c->p >= 0x20) c->p++;
    if (c->p == c->end || *c->p != '"') return 0;
    *out = jet_span_of(start, (size_t)(c->p - start));
    c->p++;
    return 1;
}

/* A number, true or false, as its text. */
static int take_word(cursor *c, jet_span *out) {
    skip_space(c);
    const uint8_t *start = c->p;
    while (c->p < c->end && ((*c->p >= '0' && *c->p <= '9') || (*c->p >= 'a' && *c->p <= 'z'))) c->p++;
    *out = jet_span_of(start, (size_t)(c->p - start));
    return out->len > 0;
}

static int is(jet_span s, const char *text) {
    size_t n = strlen(text);
    return s.len == n && memcmp(s.ptr, text, n) == 0;
}

/* `number` is where the sequence stands. */
static int parse(jet_span json, jet_puback *out, jet_span *number) {
    cursor c = {json.ptr, json.ptr + json.len};
    int has_seq = 0, has_stream = 0;
    memset(out, 0, sizeof *out);
    if (!take(&c, '{')) return 0;
    for (;;) {
        jet_span key, value;
        if (!take_string(&c, &key) || !take(&c, ':')) return 0;
        if (is(key, "error")) return 0; /* with an error it is no acknowledgement */
        skip_space(&c);
        if (c.p < c.end && *c.p == '"') {
            if (!take_string(&c, &value)) return 0;
            if (is(key, "stream")) out->stream = value, has_stream = 1;
            else out->further = 1;
        } else {
            if (!take_word(&c, &value)) return 0; /* an object or a list */
            if (is(key, "seq")) {
                if (!jet_scan_u64(value, &out->seq)) return 0;
                *number = value;
                has_seq = 1;
            } else if (is(key, "duplicate")) {
                out->duplicate = is(value, "true");
            } else {
                out->further = 1;
            }
        }
        if (take(&c, ',')) continue;
        if (!take(&c, '}')) return 0;
        skip_space(&c);
        return has_seq && has_stream && out->seq > 0 && c.p == c.end;
    }
}

int jet_puback_parse(jet_span json, jet_puback *out) {
    jet_span number;
    return parse(json, out, &number);
}

int jet_puback_next(jet_puback_form *form, jet_span json, jet_puback *out) {
    if (form->len && json.len > form->len && json.ptr[json.len - 1] == '}' &&
        memcmp(json.ptr, form->head, form->len) == 0) {
        jet_span rest = jet_span_of(json.ptr + form->len, json.len - form->len - 1);
        *out = form->like;
        out->stream.ptr = json.ptr + form->stream_at;
        if (jet_scan_u64(rest, &out->seq) && out->seq > 0) return 1;
    }
    jet_span number;
    if (!parse(json, out, &number)) return 0;
    size_t n = (size_t)(number.ptr - json.ptr);
    if (n + number.len + 1 == json.len && n <= sizeof form->head) {
        memcpy(form->head, json.ptr, n);
        form->len = n;
        form->stream_at = (size_t)(out->stream.ptr - json.ptr);
        form->like = *out;
    }
    return 1;
}
