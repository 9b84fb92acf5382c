/* link_resend - frames that were sent and are sent again over the next link, until it is known that
 * they arrived.
 *
 * A PONG tells what has arrived: everything that was sent before its PING. The buffer belongs to the
 * mutex that guards the buffer its frames come from. */
#ifndef LINK_RESEND_H
#define LINK_RESEND_H

#include "jet_buf.h"

/* Bytes: memory that stays when nothing is to be confirmed; how much more is put in before it is
 * asked again; and the most that is kept. */
#define LINK_RESEND_ROOM (64u * 1024u)
#define LINK_RESEND_MORE (512u * 1024u)
#define LINK_RESEND_MOST (8u << 20)

typedef struct link_resend {
    jet_buf frames;
    uint64_t end; /* bytes ever put in */
    size_t ask_at; /* send a PING when so many bytes are kept; 0: no question is on its way */
} link_resend;

/* The PINGs that the caller of link_resend_add has to send. */
typedef enum link_question {
    LINK_ASK_NOTHING = 0,
    LINK_ASK_REGULARLY = 1, /* these are the first frames: begin to send PINGs for them */
    LINK_ASK_NOW = 2,       /* many bytes are kept: send a PING at once */
    LINK_ASK_NO_MEMORY = -1 /* they are not kept: do not send them either */
} link_question;

void link_resend_init(link_resend *r);
/* Free the memory; it is empty and usable afterwards. */
void link_resend_free(link_resend *r);
/* Copy `n` bytes to the end. When that would be more than the most, all before is forgotten. */
link_question link_resend_add(link_resend *r, const uint8_t *frames, size_t n);
/* Forget what was put in before `point` (a value of `end`). */
void link_resend_arrived(link_resend *r, uint64_t point);
/* Whether anything is kept. If nothing is, the memory goes back, and the next frame put in is a first one
 * again. */
int link_resend_has_more(link_resend *r);

#endif
