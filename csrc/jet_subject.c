#include "jet_subject.h"

int jet_subject_is_safe(jet_span s) {
    if (s.len == 0) return 0;
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] <= ' ' || s.ptr[i] == 0x7f) return 0;
    return 1;
}

/* Walk the tokens once; `empty` and `wild` count what the callers decide on. */
static int tokens(jet_span s, size_t *empty, size_t *stars, size_t *inner_gt, size_t *last_gt) {
    if (!jet_subject_is_safe(s)) return 0;
    *empty = *stars = *inner_gt = *last_gt = 0;
    size_t start = 0;
    for (size_t i = 0; i <= s.len; i++) {
        if (i < s.len && s.ptr[i] != '.') continue;
        size_t n = i - start;
        if (n == 0) (*empty)++;
        if (n == 1 && s.ptr[start] == '*') (*stars)++;
        if (n == 1 && s.ptr[start] == '>') {
            if (i == s.len) (*last_gt)++;
            else (*inner_gt)++;
        }
        start = i + 1;
    }
    return 1;
}

int jet_subject_is_publishable(jet_span s) {
    size_t empty, stars, inner_gt, last_gt;
    return tokens(s, &empty, &stars, &inner_gt, &last_gt) && stars == 0 && inner_gt == 0 &&
           last_gt == 0;
}

int jet_subject_is_subscribable(jet_span s) {
    size_t empty, stars, inner_gt, last_gt;
    return tokens(s, &empty, &stars, &inner_gt, &last_gt) && empty == 0 && inner_gt == 0;
}
