/* Those who put bytes in. */
#include "world.h"

/* Put `p` in, waiting for room for a while at most. Returns whether it was. */
static int put(link_put *p, double seconds, int may_wait) {
    link_waiter w;
    int result = link_outbound_put(&out, p, may_wait);
    if (result == LINK_BUSY) result = link_outbound_put(&out, p, 1);
    while (result == LINK_FULL) {
        link_outbound_join(&out, &w, p);
        if (link_wakeup_sleep(&w.wakeup, link_now() + seconds) != LINK_WOKEN) {
            link_outbound_withdraw(&out, &w);
            return 0;
        }
        result = link_outbound_put_promised(&out, p, &w);
    }
    CHECK(result == LINK_OK || result == LINK_OFFLINE || result == LINK_CLOSED);
    if (result == LINK_OFFLINE) sched_yield();
    return result == LINK_OK;
}

void *publisher(void *which) {
    char subject[3] = {'p', (char)('0' + (int)(intptr_t)which), 0};
    uint8_t payload[1500];
    uint64_t number = 1;
    memset(payload, ' ', sizeof payload);
    for (size_t i = 0; !atomic_load(&ended); i++) {
        size_t digits = jet_encode_u64(payload, number);
        payload[digits] = ' ';
        link_put p = {.kind = LINK_PUB,
                      .subject = jet_span_of((const uint8_t *)subject, 2),
                      .payload = jet_span_of(payload, 30 + i * 37 % 1400),
                      .messages = 1,
                      .wake = i % 8 != 0};
        number += (uint64_t)put(&p, i % 5 ? 0.1 : 0.0001, i % 2 == 0);
        if (!p.wake && link_outbound_begin_send(&out)) link_outbound_send(&out);
    }
    return NULL;
}

/* Lend a frame, now and then write it anew when it has left, and let go of it at some time. */
static void lend(void) {
    static const char frame[] = "PUB a3 _W.2 2\r\n1 \r\n";
    size_t n = sizeof frame - 1;
    uint8_t *data = malloc(n);
    memcpy(data, frame, n);
    link_share *share = link_share_new(data);
    for (int i = 0; i < 3; i++) {
        link_put p = {.kind = LINK_FRAMES,
                      .payload = jet_span_of(data, n),
                      .messages = 1,
                      .link = link_load(&out.links),
                      .share = share,
                      .wake = 1};
        link_outbound_offer(&out, &p);
        usleep(i * 50);
    }
    if (!link_share_end(share)) return;
    memset(data, 0, n);
    free(data);
}

void *acknowledger(void *unused) {
    static const char frame[] = "PUB a1 3\r\n42 \r\n", offered[] = "PUB a2 _W.1 2\r\n1 \r\n";
    while (!atomic_load(&ended)) {
        link_put p = {.kind = LINK_REPLY,
                      .subject = jet_span_of((const uint8_t *)"a0", 2),
                      .payload = jet_span_of((const uint8_t *)"7", 1),
                      .messages = 1,
                      .resend = 1,
                      .wake = 1};
        put(&p, 0.01, 0);
        link_put all = {.kind = LINK_FRAMES,
                        .payload = jet_span_of((const uint8_t *)frame, sizeof frame - 1),
                        .messages = 1,
                        .resend = 1,
                        .wake = 1};
        put(&all, 0.01, 1);
        all.link = link_load(&out.links);
        all.payload = jet_span_of((const uint8_t *)offered, sizeof offered - 1);
        all.resend = 0;
        link_outbound_offer(&out, &all);
        if (link_outbound_holds(&out) && link_outbound_begin_send(&out)) link_outbound_send(&out);
        lend();
        contend(0.0001);
        usleep(100);
    }
    return unused;
}
