#include "jet_lines.h"

#include <stdlib.h>
#include <string.h>

#include "jet_header.h"
#include "jet_scan.h"

void jet_lines_init(jet_lines *l) {
    l->line = l->few;
    l->count = 0;
    l->cap = JET_LINES_FEW;
    l->sorted = NULL;
}

void jet_lines_free(jet_lines *l) {
    if (l->line != l->few) free(l->line);
    free(l->sorted);
    jet_lines_init(l);
}

static int grow(jet_lines *l) {
    size_t cap = l->cap * 4;
    int moves = l->line == l->few;
    jet_line *grown = realloc(moves ? NULL : l->line, cap * sizeof *grown);
    if (grown == NULL) return 0;
    if (moves) memcpy(grown, l->few, sizeof l->few);
    l->line = grown;
    jet_line **sorted = realloc(l->sorted, cap * sizeof *sorted);
    if (sorted == NULL) return 0;
    l->sorted = sorted;
    l->cap = cap;
    return 1;
}

/* For a few lines looking at the ones after them costs less than sorting. */
static void link_few(jet_lines *l) {
    for (size_t i = 0; i < l->count; i++)
        for (size_t j = i + 1; j < l->count; j++)
            if (jet_span_equal(l->line[i].name, l->line[j].name)) {
                l->line[i].next = &l->line[j];
                l->line[j].repeats = 1;
                break;
            }
}

/* By name, and lines of one name in the order of the block. */
static int compare(const void *left, const void *right) {
    const jet_line *a = *(jet_line *const *)left, *b = *(jet_line *const *)right;
    if (a->name.len != b->name.len) return a->name.len < b->name.len ? -1 : 1;
    int order = memcmp(a->name.ptr, b->name.ptr, a->name.len);
    return order ? order : (a > b) - (a < b);
}

static void link_many(jet_lines *l) {
    for (size_t i = 0; i < l->count; i++) l->sorted[i] = &l->line[i];
    qsort(l->sorted, l->count, sizeof *l->sorted, compare);
    for (size_t i = 1; i < l->count; i++)
        if (jet_span_equal(l->sorted[i - 1]->name, l->sorted[i]->name)) {
            l->sorted[i - 1]->next = l->sorted[i];
            l->sorted[i]->repeats = 1;
        }
}

jet_status jet_lines_read(jet_lines *l, jet_span block) {
    jet_header_iter it;
    jet_line one = {{NULL, 0}, {NULL, 0}, NULL, 0};
    jet_header_begin(&it, block);
    l->count = 0;
    while (jet_header_next(&it, &one.name, &one.value)) {
        if (l->count == l->cap && !grow(l)) {
            l->count = 0;
            return JET_ERR_MEMORY;
        }
        l->line[l->count++] = one;
    }
    if (l->count <= JET_LINES_FEW) link_few(l);
    else link_many(l);
    return JET_OK;
}
