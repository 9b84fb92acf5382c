/* nats.c, the official client in C, as the system's package has it. */
#include "nats_c.h"

static long batch;

static void nap(void) { usleep(500); }

static void on_message(natsConnection *c, natsSubscription *s, natsMsg *msg, void *closure) {
    (void)c, (void)s, (void)closure;
    touched += natsMsg_GetDataLength(msg);
    seen++;
    natsMsg_Destroy(msg);
}

static void do_publish(void) {
    meter_start();
    for (long n = 0; n < count; n++) check(natsConnection_Publish(nc, "unused", payload, size));
    check(natsConnection_FlushTimeout(nc, 60000));
    meter_stop(count, count * size, size, "");
}

static void do_callback(void) {
    natsSubscription *sub;
    check(natsConnection_Subscribe(&sub, nc, argument("subject"), on_message, NULL));
    check(natsSubscription_SetPendingLimits(sub, -1, -1));
    check(natsConnection_Flush(nc));
    meter_start();
    while (seen < count) nap();
    meter_stop(seen, touched, size, "");
}

static void take_all(natsSubscription *sub) {
    natsMsg *msg;
    for (long n = 0; n < count; n++) {
        check(natsSubscription_NextMsg(&msg, sub, 60000));
        touched += natsMsg_GetDataLength(msg);
        natsMsg_Destroy(msg);
    }
    meter_stop(count, touched, size, "");
}

static natsSubscription *subscribe_unlimited(void) {
    natsSubscription *sub;
    check(natsConnection_SubscribeSync(&sub, nc, argument("subject")));
    check(natsSubscription_SetPendingLimits(sub, -1, -1));
    check(natsConnection_Flush(nc));
    return sub;
}

static void do_next(void) {
    natsSubscription *sub = subscribe_unlimited();
    meter_start();
    take_all(sub);
}

static void do_memory(void) {
    natsSubscription *sub = subscribe_unlimited();
    char more[64];
    int messages = 0, bytes;
    long before = resident_bytes();
    meter_start();
    while (messages < count) {
        nap();
        check(natsSubscription_GetPending(sub, &messages, &bytes));
    }
    snprintf(more, sizeof more, ", \"bytes_per_message\": %.1f",
             (double)(resident_bytes() - before) / count);
    meter_stop(count, count * size, size, more);
}

static void do_request(void) {
    double *durations = malloc(count * sizeof *durations);
    natsMsg *reply;
    check(natsConnection_Request(&reply, nc, argument("subject"), payload, size, 60000));
    natsMsg_Destroy(reply);
    meter_start();
    for (long n = 0; n < count; n++) {
        double before = now_seconds();
        check(natsConnection_Request(&reply, nc, argument("subject"), payload, size, 60000));
        durations[n] = now_seconds() - before;
        natsMsg_Destroy(reply);
    }
    meter_stop_timed(durations, count);
}

static void do_js_publish(void) {
    double *durations = malloc(count * sizeof *durations);
    jsPubAck *ack;
    check(js_Publish(&ack, js, argument("subject"), payload, size, NULL, NULL));
    jsPubAck_Destroy(ack);
    meter_start();
    for (long n = 0; n < count; n++) {
        double before = now_seconds();
        check(js_Publish(&ack, js, argument("subject"), payload, size, NULL, NULL));
        durations[n] = now_seconds() - before;
        jsPubAck_Destroy(ack);
    }
    meter_stop_timed(durations, count);
}

static void do_js_async(void) {
    jsPubOptions options;
    jsPubOptions_Init(&options);
    options.MaxWait = 120000;
    meter_start();
    for (long n = 0; n < count; n++) {
        check(js_PublishAsync(js, argument("subject"), payload, size, NULL));
    }
    check(js_PublishAsyncComplete(js, &options));
    meter_stop(count, count * size, size, "");
}

static void do_fetch(int ack) {
    natsSubscription *sub;
    natsMsgList list;
    jsSubOptions options;
    jsSubOptions_Init(&options);
    options.Stream = argument("stream");
    options.Consumer = argument("consumer");
    options.ManualAck = true;
    check(js_PullSubscribe(&sub, js, argument("subject"), argument("consumer"), NULL, &options, NULL));
    meter_start();
    while (seen < count) {
        long here = count - seen < batch ? count - seen : batch;
        check(natsSubscription_Fetch(&list, sub, here, 60000, NULL));
        for (int n = 0; n < list.Count; n++) {
            touched += natsMsg_GetDataLength(list.Msgs[n]);
            if (ack == 1) check(natsMsg_Ack(list.Msgs[n], NULL));
            if (ack == 2) check(natsMsg_AckSync(list.Msgs[n], NULL, NULL));
        }
        seen += list.Count;
        natsMsgList_Destroy(&list);
    }
    if (ack == 1) check(natsConnection_FlushTimeout(nc, 60000));
    meter_stop(seen, touched, size, "");
}

static void do_js_subscribe(int ordered) {
    natsSubscription *sub;
    jsSubOptions options;
    jsSubOptions_Init(&options);
    options.Stream = argument("stream");
    meter_start();
    if (ordered) {
        options.Ordered = true;
        check(js_SubscribeSync(&sub, js, argument("subject"), NULL, &options, NULL));
        check(natsSubscription_SetPendingLimits(sub, -1, -1));
        take_all(sub);
        return;
    }
    options.Config.AckPolicy = js_AckNone;
    check(js_Subscribe(&sub, js, argument("subject"), on_message, NULL, NULL, &options, NULL));
    check(natsSubscription_SetPendingLimits(sub, -1, -1));
    while (seen < count) nap();
    meter_stop(seen, touched, size, "");
}

int main(int argc, char **argv) {
    (void)argc;
    if (argv[1] && strcmp(argv[1], "list") == 0) {
        printf("{\"version\": \"nats.c %s\", \"runs\": \"C\", \"workloads\": [\"publish\", "
               "\"sub_callback\", \"sub_next\", \"request\", \"js_publish\", \"js_async_no_id\", "
               "\"fetch\", \"fetch_ack\", \"fetch_ack_sync\", \"ordered\", \"push\", \"memory\"]}\n",
               nats_GetVersion());
        return 0;
    }
    nats_c_begin(argv);
    const char *workload = argument("workload");
    batch = atol(argument("batch"));
    if (strcmp(workload, "publish") == 0) do_publish();
    else if (strcmp(workload, "sub_callback") == 0) do_callback();
    else if (strcmp(workload, "sub_next") == 0) do_next();
    else if (strcmp(workload, "request") == 0) do_request();
    else if (strcmp(workload, "js_publish") == 0) do_js_publish();
    else if (strcmp(workload, "js_async_no_id") == 0) do_js_async();
    else if (strcmp(workload, "fetch") == 0) do_fetch(0);
    else if (strcmp(workload, "fetch_ack") == 0) do_fetch(1);
    else if (strcmp(workload, "fetch_ack_sync") == 0) do_fetch(2);
    else if (strcmp(workload, "ordered") == 0) do_js_subscribe(1);
    else if (strcmp(workload, "push") == 0) do_js_subscribe(0);
    else if (strcmp(workload, "memory") == 0) do_memory();
    else give_up("no such workload");
    fflush(stdout);
    _exit(0);
}
