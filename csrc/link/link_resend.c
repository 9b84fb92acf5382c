#include "link_resend.h"

void link_resend_init(link_resend *r) {
    jet_buf_init(&r->frames);
    r->end = 0;
    r->ask_at = 0;
}

void link_resend_free(link_resend *r) { jet_buf_free(&r->frames); }

link_question link_resend_add(link_resend *r, const uint8_t *frames, size_t n) {
    int first = r->ask_at == 0;
    if (jet_buf_len(&r->frames) + n > LINK_RESEND_MOST) {
        /* The peer takes all of this and answers no PING. */
        jet_buf_consume(&r->frames, jet_buf_len(&r->frames));
        r->ask_at = LINK_RESEND_MORE;
    }
    if (jet_buf_append(&r->frames, frames, n) != JET_OK) return LINK_ASK_NO_MEMORY;
    r->end += n;
    if (!first && jet_buf_len(&r->frames) < r->ask_at) return LINK_ASK_NOTHING;
    r->ask_at = jet_buf_len(&r->frames) + LINK_RESEND_MORE;
    return first ? LINK_ASK_REGULARLY : LINK_ASK_NOW;
}

void link_resend_arrived(link_resend *r, uint64_t point) {
    size_t n = jet_buf_len(&r->frames), left = (size_t)(r->end - point);
    if (n > left) jet_buf_consume(&r->frames, n - left);
    if (r->ask_at) r->ask_at = jet_buf_len(&r->frames) + LINK_RESEND_MORE;
}

int link_resend_has_more(link_resend *r) {
    if (jet_buf_len(&r->frames)) return 1;
    /* Until now the memory was kept, since acknowledgements usually follow one another. */
    r->ask_at = 0;
    jet_buf_clear(&r->frames, LINK_RESEND_ROOM);
    return 0;
}
