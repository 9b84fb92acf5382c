/* jet_lines - the lines of a header block, with those of one name linked to each other.
 *
 * A publisher chooses how many lines there are, and their names. Reading n of them takes time
 * proportional to n log n, whatever the names are. */
#ifndef JET_LINES_H
#define JET_LINES_H

#include "jet_types.h"

typedef struct jet_line {
    jet_span name;          /* both borrowed from the block */
    jet_span value;
    struct jet_line *next;  /* the next line with this name, or NULL */
    int repeats;            /* a line before this one has the same name */
} jet_line;

#define JET_LINES_FEW 16u

typedef struct jet_lines {
    jet_line *line; /* in the order of the block */
    size_t count;
    size_t cap;
    jet_line **sorted; /* room to sort them in; owned */
    jet_line few[JET_LINES_FEW]; /* room that suffices for most blocks */
} jet_lines;

/* An initialised object must not be copied or moved. */
void jet_lines_init(jet_lines *l);
void jet_lines_free(jet_lines *l);
/* Read a block; what was read before is gone. On JET_ERR_MEMORY there are no lines. */
jet_status jet_lines_read(jet_lines *l, jet_span block);

#endif
