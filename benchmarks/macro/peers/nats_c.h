/* What the programs of nats.c share: one connection with JetStream, and the arguments of the run. */
#ifndef NATS_C_H
#define NATS_C_H

#include <nats/nats.h>

#include "meter.h"

static natsConnection *nc;
static jsCtx *js;
static long count, size;
static char *payload;
static volatile long seen, touched; /* added to by other threads */

static void check(natsStatus status) {
    if (status != NATS_OK) give_up(natsStatus_GetText(status));
}

/* Read the arguments, which begin at argv[1], and connect. */
static void nats_c_begin(char **argv) {
    meter_arguments = argv + 1;
    count = atol(argument("count"));
    size = atol(argument("size"));
    payload = malloc(size + 1);
    memset(payload, 'x', size + 1);
    check(natsConnection_ConnectTo(&nc, argument("url")));
    check(natsConnection_JetStream(&js, nc, NULL));
}

#endif
