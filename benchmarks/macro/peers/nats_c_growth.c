/* nats.c, how its cost grows: what jetsync_growth.py does, where it has such a call. */
#include <pthread.h>

#include "nats_c.h"

static long point;

static const char *numbered(const char *prefix, long n) {
    static char name[128];
    snprintf(name, sizeof name, "%s.%ld", prefix, n);
    return name;
}

static void take(natsSubscription *sub, long messages) {
    natsMsg *msg;
    for (long n = 0; n < messages; n++) {
        check(natsSubscription_NextMsg(&msg, sub, 60000));
        touched += natsMsg_GetDataLength(msg);
        seen++;
        natsMsg_Destroy(msg);
    }
}

static natsSubscription *subscribe(const char *subject) {
    natsSubscription *sub;
    check(natsConnection_SubscribeSync(&sub, nc, subject));
    check(natsSubscription_SetPendingLimits(sub, -1, -1));
    return sub;
}

static void do_subscriptions(void) {
    natsSubscription **subs = malloc(point * sizeof *subs);
    for (long n = 0; n < point; n++) subs[n] = subscribe(numbered(argument("subject"), n));
    check(natsConnection_FlushTimeout(nc, 60000));
    meter_start();
    for (long n = 0; n < point; n++) take(subs[n], count / point + (n < count % point));
    meter_stop(seen, touched, size, "");
}

static void on_threads(void *(*work)(void *)) {
    pthread_t threads[64];
    long share = count / point;
    meter_start();
    for (long n = 0; n < point; n++) {
        if (pthread_create(&threads[n], NULL, work, &share)) give_up("no thread");
    }
    for (long n = 0; n < point; n++) pthread_join(threads[n], NULL);
    check(natsConnection_FlushTimeout(nc, 60000));
    meter_stop(share * point, share * point * size, size, "");
}

static void *requesting(void *share) {
    natsMsg *reply;
    for (long n = 0; n < *(long *)share; n++) {
        check(natsConnection_Request(&reply, nc, argument("subject"), payload, size, 60000));
        natsMsg_Destroy(reply);
    }
    return NULL;
}

static void *publishing(void *share) {
    for (long n = 0; n < *(long *)share; n++)
        check(natsConnection_Publish(nc, "unused", payload, size));
    return NULL;
}

static void do_size(void) {
    natsSubscription *sub = subscribe(argument("subject"));
    check(natsConnection_FlushTimeout(nc, 60000));
    meter_start();
    take(sub, count);
    meter_stop(seen, touched, size, "");
}

static void do_many_subscriptions(int memory) {
    natsSubscription *sub;
    char more[64] = "";
    long before = resident_bytes();
    meter_start();
    for (long n = 0; n < point; n++)
        check(natsConnection_SubscribeSync(&sub, nc, numbered("many", n)));
    check(natsConnection_FlushTimeout(nc, 60000));
    if (memory)
        snprintf(more, sizeof more, ", \"bytes_each\": %.1f",
                 (double)(resident_bytes() - before) / point);
    meter_stop(point, point * size, size, more);
}

static void do_among_many(void) {
    natsSubscription *sub = subscribe(argument("subject")), *other;
    for (long n = 0; n < point; n++)
        check(natsConnection_SubscribeSync(&other, nc, numbered("many", n)));
    check(natsConnection_FlushTimeout(nc, 60000));
    meter_start();
    take(sub, count);
    meter_stop(seen, touched, size, "");
}

static void on_message(natsConnection *c, natsSubscription *s, natsMsg *msg, void *closure) {
    (void)c, (void)s, (void)closure;
    __atomic_add_fetch(&touched, natsMsg_GetDataLength(msg), __ATOMIC_RELAXED);
    __atomic_add_fetch(&seen, 1, __ATOMIC_RELEASE);
    natsMsg_Destroy(msg);
}

static void do_callbacks(void) {
    natsSubscription *sub;
    for (long n = 0; n < point; n++) {
        check(natsConnection_Subscribe(&sub, nc, numbered(argument("subject"), n), on_message, NULL));
        check(natsSubscription_SetPendingLimits(sub, -1, -1));
    }
    check(natsConnection_FlushTimeout(nc, 60000));
    meter_start();
    while (__atomic_load_n(&seen, __ATOMIC_ACQUIRE) < count) usleep(20000);
    meter_stop(seen, touched, size, "");
}

static void do_keys(void) {
    char bucket[64], subject[128];
    kvStore *kv;
    kvConfig config;
    kvKeysList found;
    snprintf(bucket, sizeof bucket, "keys_c_%ld", point);
    kvConfig_Init(&config);
    config.Bucket = bucket;
    config.StorageType = js_MemoryStorage;
    check(js_CreateKeyValue(&kv, js, &config));
    for (long n = 0; n < point; n++) {
        snprintf(subject, sizeof subject, "$KV.%s.key.%ld", bucket, n);
        check(natsConnection_Publish(nc, subject, "v", 1));
    }
    check(natsConnection_FlushTimeout(nc, 60000));
    meter_start();
    check(kvStore_Keys(&found, kv, NULL));
    meter_stop(found.Count, found.Count * size, size, "");
    check(js_DeleteKeyValue(js, bucket));
}

static void do_streams(void) {
    jsStreamInfoList *found;
    jsErrCode code;
    char name[32], subject[64];
    const char *subjects[] = {subject};
    for (long n = 0; n < point; n++) {
        jsStreamConfig config;
        jsStreamConfig_Init(&config);
        snprintf(name, sizeof name, "MANY_%ld", n);
        snprintf(subject, sizeof subject, "many_streams.%s", name);
        config.Name = name;
        config.Subjects = subjects;
        config.SubjectsLen = 1;
        config.Storage = js_MemoryStorage;
        check(js_AddStream(NULL, js, &config, NULL, &code));
    }
    meter_start();
    check(js_Streams(&found, js, NULL, &code));
    meter_stop(found->Count, found->Count * size, size, "");
    for (long n = 0; n < point; n++) {
        snprintf(name, sizeof name, "MANY_%ld", n);
        check(js_DeleteStream(js, name, NULL, &code));
    }
}

static void do_headers(void) {
    natsSubscription *sub = subscribe("headers");
    natsMsg *msg;
    const char **names, *value;
    int names_count;
    long read = 0, rounds = 100000 / point > 1 ? 100000 / point : 1;
    check(natsMsg_Create(&msg, "headers", NULL, NULL, 0));
    for (long n = 0; n < point; n++) {
        char name[32];
        snprintf(name, sizeof name, "h%ld", n);
        check(natsMsgHeader_Set(msg, name, "1"));
    }
    check(natsConnection_PublishMsg(nc, msg));
    natsMsg_Destroy(msg);
    check(natsSubscription_NextMsg(&msg, sub, 60000));
    meter_start();
    for (long n = 0; n < rounds; n++) {
        check(natsMsgHeader_Keys(msg, &names, &names_count));
        for (int i = 0; i < names_count; i++) {
            check(natsMsgHeader_Get(msg, names[i], &value));
            read += value[0] == '1';
        }
        free((void *)names);
    }
    meter_stop(read, read * size, size, "");
}

int main(int argc, char **argv) {
    (void)argc;
    if (argv[1] && strcmp(argv[1], "list") == 0) {
        printf("{\"version\": \"nats.c %s\", \"runs\": \"C\", \"workloads\": [\"subscriptions\", "
               "\"request_threads\", \"publish_threads\", \"size\", \"many_subscriptions\", "
               "\"many_memory\", \"among_many\", \"callbacks\", \"keys\", \"streams\", \"headers\"]}\n",
               nats_GetVersion());
        return 0;
    }
    nats_c_begin(argv);
    const char *workload = argument("workload");
    point = atol(argument("point"));
    if (strcmp(workload, "subscriptions") == 0) do_subscriptions();
    else if (strcmp(workload, "request_threads") == 0) on_threads(requesting);
    else if (strcmp(workload, "publish_threads") == 0) on_threads(publishing);
    else if (strcmp(workload, "size") == 0) do_size();
    else if (strcmp(workload, "many_subscriptions") == 0) do_many_subscriptions(0);
    else if (strcmp(workload, "many_memory") == 0) do_many_subscriptions(1);
    else if (strcmp(workload, "among_many") == 0) do_among_many();
    else if (strcmp(workload, "callbacks") == 0) do_callbacks();
    else if (strcmp(workload, "keys") == 0) do_keys();
    else if (strcmp(workload, "streams") == 0) do_streams();
    else if (strcmp(workload, "headers") == 0) do_headers();
    else give_up("no such workload");
    fflush(stdout);
    _exit(0);
}
