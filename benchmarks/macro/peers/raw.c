/* The physical limit: one blocking socket, a large buffer, the least that the protocol asks for.
 *
 * No reconnect, no limits, no error handling beyond giving up. It is also the sender and the
 * responder that the driver sets against every peer: workload=flood and workload=echo.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "meter.h"

enum { READ_AT_ONCE = 256 * 1024, ROOM = 4 * 1024 * 1024, WRITE_AT = 64 * 1024, WINDOW = 2000 };

typedef struct {
    char kind; /* M: a message, P: a PONG */
    int sid, reply_length, data_length;
    char *reply, *data;
} Frame;

static int link_fd;
static char *in_buffer, *out_buffer;
static size_t in_at, in_end, out_end;
static long count, size, batch;
static char *payload;

static void flush_out(void) {
    size_t at = 0;
    while (at < out_end) {
        ssize_t sent = send(link_fd, out_buffer + at, out_end - at, MSG_NOSIGNAL);
        if (sent <= 0) give_up("the server closed the connection");
        at += sent;
    }
    out_end = 0;
}

static void put(const void *bytes, size_t length) {
    if (out_end + length > ROOM) flush_out();
    memcpy(out_buffer + out_end, bytes, length);
    out_end += length;
}

static void put_text(const char *text) { put(text, strlen(text)); }

static void publish(const char *subject, const char *reply, const void *data, long length) {
    char head[512];
    int head_length = snprintf(head, sizeof head, "PUB %s%s%s %ld\r\n", subject, *reply ? " " : "",
                               reply, length);
    put(head, head_length);
    put(data, length);
    put("\r\n", 2);
    if (out_end >= WRITE_AT) flush_out();
}

static void receive(void) {
    if (in_at) {
        memmove(in_buffer, in_buffer + in_at, in_end - in_at);
        in_end -= in_at;
        in_at = 0;
    }
    ssize_t got = recv(link_fd, in_buffer + in_end, READ_AT_ONCE, 0);
    if (got <= 0) give_up("the server closed the connection");
    in_end += got;
}

/* Find the next whole frame in the buffer; returns 0 when there is none. */
static int take_frame(Frame *frame) {
    for (;;) {
        char *start = in_buffer + in_at;
        char *line_end = memchr(start, '\n', in_end - in_at);
        if (!line_end) return 0;
        char *after = line_end + 1;
        if (*start == 'M' || *start == 'H') {
            char *word[6], *at = start;
            int words = 0;
            while (at < line_end && words < 6) {
                word[words++] = at;
                while (at < line_end && *at != ' ' && *at != '\r') at++;
                while (at < line_end && (*at == ' ' || *at == '\r')) at++;
            }
            long total = strtol(word[words - 1], NULL, 10), header = 0;
            if (*start == 'H') header = strtol(word[words - 2], NULL, 10);
            int has_reply = words == (*start == 'H' ? 6 : 5);
            if (after + total + 2 > in_buffer + in_end) return 0;
            frame->kind = 'M';
            frame->sid = atoi(word[2]);
            frame->reply = has_reply ? word[3] : NULL;
            frame->reply_length = has_reply ? (int)(strchr(word[3], ' ') - word[3]) : 0;
            frame->data = after + header;
            frame->data_length = (int)(total - header);
            in_at = after + total + 2 - in_buffer;
            return 1;
        }
        in_at = after - in_buffer;
        if (strncmp(start, "PING", 4) == 0) put_text("PONG\r\n");
        if (strncmp(start, "-ERR", 4) == 0) give_up("the server reported an error");
        if (strncmp(start, "PONG", 4) == 0) {
            frame->kind = 'P';
            return 1;
        }
    }
}

static void wait_frame(Frame *frame) {
    while (!take_frame(frame)) {
        if (out_end) flush_out();
        receive();
    }
}

static void wait_pong(void) {
    Frame frame;
    put_text("PING\r\n");
    flush_out();
    do wait_frame(&frame);
    while (frame.kind != 'P');
}

static void connect_server(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    int yes = 1;
    address.sin_port = htons(atoi(strrchr(argument("url"), ':') + 1));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    link_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(link_fd, (struct sockaddr *)&address, sizeof address)) give_up("cannot connect");
    setsockopt(link_fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    put_text("CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true,"
             "\"lang\":\"c\",\"version\":\"0\",\"protocol\":1}\r\n");
    wait_pong();
}

static void subscribe(const char *subject, int sid) {
    char line[256];
    snprintf(line, sizeof line, "SUB %s %d\r\n", subject, sid);
    put_text(line);
}

static long drain(long wanted) {
    Frame frame;
    long touched = 0;
    for (long seen = 0; seen < wanted; seen++) {
        wait_frame(&frame);
        touched += frame.data_length;
    }
    return touched;
}

static void do_publish(void) {
    meter_start();
    for (long n = 0; n < count; n++) publish("unused", "", payload, size);
    wait_pong();
    meter_stop(count, count * size, size, "");
}

static void do_subscribe(void) {
    subscribe(argument("subject"), 1);
    wait_pong();
    meter_start();
    long touched = drain(count);
    meter_stop(count, touched, size, "");
}

static void do_push(void) {
    meter_start();
    subscribe(argument("deliver"), 1);
    long touched = drain(count);
    meter_stop(count, touched, size, "");
}

static void do_request(void) {
    Frame frame;
    double *durations = malloc(count * sizeof *durations);
    subscribe("inbox.raw", 1);
    wait_pong();
    meter_start();
    for (long n = 0; n < count; n++) {
        double before = now_seconds();
        publish(argument("subject"), "inbox.raw", payload, size);
        wait_frame(&frame);
        durations[n] = now_seconds() - before;
    }
    meter_stop_timed(durations, count);
}

static void publish_with_id(const char *subject, long number) {
    char id[96], head[512];
    int length = snprintf(id, sizeof id, "NATS/1.0\r\nNats-Msg-Id: raw0123456789abcdef%ld\r\n\r\n", number);
    int head_length = snprintf(head, sizeof head, "HPUB %s inbox.raw %d %ld\r\n", subject, length,
                               length + size);
    put(head, head_length);
    put(id, length);
    put(payload, size);
    put("\r\n", 2);
    if (out_end >= WRITE_AT) flush_out();
}

static void do_publish_window(int with_id) {
    const char *subject = argument("subject");
    Frame frame;
    subscribe("inbox.raw", 1);
    wait_pong();
    meter_start();
    long sent = 0, confirmed = 0;
    while (confirmed < count) {
        while (sent < count && sent - confirmed < WINDOW) {
            if (with_id) publish_with_id(subject, sent);
            else publish(subject, "inbox.raw", payload, size);
            sent++;
        }
        wait_frame(&frame);
        do {
            if (!memmem(frame.data, frame.data_length, "\"seq\":", 6)) give_up("not stored");
            confirmed++;
        } while (take_frame(&frame));
    }
    meter_stop(count, count * size, size, "");
}

static void pull(long messages) {
    char subject[256], body[96];
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.MSG.NEXT.%s.%s", argument("stream"),
             argument("consumer"));
    int length = snprintf(body, sizeof body, "{\"batch\":%ld,\"expires\":60000000000}", messages);
    publish(subject, "inbox.raw", body, length);
}

/* A stream asks ahead, when half of what it asked for is there; a fetch when all of it is. */
static void do_pull(int ack, int ahead) {
    Frame frame;
    long touched = 0, asked = batch, low = ahead ? batch / 2 : 0;
    subscribe("inbox.raw", 1);
    wait_pong();
    meter_start();
    pull(batch);
    for (long seen = 0; seen < count;) {
        wait_frame(&frame);
        touched += frame.data_length;
        seen++;
        if (ack) {
            put("PUB ", 4);
            put(frame.reply, frame.reply_length);
            put_text(" 4\r\n+ACK\r\n");
        }
        if (asked - seen <= low && seen < count) {
            pull(batch - low);
            asked += batch - low;
        }
    }
    if (ack) wait_pong();
    meter_stop(count, touched, size, "");
}

/* Acknowledgements that the server confirms: one at a time, or a batch of them in one write. */
static void do_pull_sync(int at_once) {
    Frame frame;
    char(*replies)[160] = malloc(batch * sizeof *replies);
    long touched = 0;
    subscribe("inbox.raw", 1);
    subscribe("inbox.confirmed", 2);
    wait_pong();
    meter_start();
    for (long seen = 0; seen < count;) {
        long here = count - seen < batch ? count - seen : batch;
        pull(here);
        for (long n = 0; n < here; n++) {
            wait_frame(&frame);
            touched += frame.data_length;
            snprintf(replies[n], sizeof *replies, "%.*s", frame.reply_length, frame.reply);
        }
        for (long n = 0; n < here; n++) {
            publish(replies[n], "inbox.confirmed", "+ACK", 4);
            if (!at_once) wait_frame(&frame);
        }
        for (long n = 0; at_once && n < here; n++) wait_frame(&frame);
        seen += here;
    }
    meter_stop(count, touched, size, "");
}

static void do_ranges(void) {
    char subject[160], body[96];
    Frame frame;
    long touched = 0;
    snprintf(subject, sizeof subject, "$JS.API.DIRECT.GET.%s", argument("stream"));
    subscribe("inbox.raw", 1);
    wait_pong();
    meter_start();
    for (long seen = 0; seen < count;) {
        long here = count - seen < 1000 ? count - seen : 1000;
        int length = snprintf(body, sizeof body, "{\"seq\":%ld,\"batch\":%ld}", seen + 1, here);
        publish(subject, "inbox.raw", body, length);
        touched += drain(here);
        wait_frame(&frame); /* the end of the batch: a status */
        seen += here;
    }
    meter_stop(count, touched, size, "");
}

static void do_flood(void) {
    const char *subject = argument("subject");
    long spread = atol(argument("spread")); /* over subject.0, subject.1 ... */
    char name[256];
    for (long n = 0; n < count; n++) {
        if (spread) snprintf(name, sizeof name, "%s.%ld", subject, n % spread);
        publish(spread ? name : subject, "", payload, size);
    }
    wait_pong();
}

static void do_echo(void) {
    Frame frame;
    char reply[256];
    subscribe(argument("subject"), 1);
    wait_pong();
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        wait_frame(&frame);
        if (!frame.reply) continue;
        snprintf(reply, sizeof reply, "%.*s", frame.reply_length, frame.reply);
        publish(reply, "", frame.data, frame.data_length);
    }
}

static int is(const char *workload, const char *names) {
    const char *found = strstr(names, workload);
    size_t length = strlen(workload);
    while (found) {
        if ((found == names || found[-1] == ' ') && (found[length] == ' ' || !found[length])) return 1;
        found = strstr(found + 1, workload);
    }
    return 0;
}

int main(int argc, char **argv) {
    (void)argc;
    if (argv[1] && strcmp(argv[1], "list") == 0) {
        printf("{\"version\": \"raw socket\", \"runs\": \"C, one thread\", \"workloads\": ["
               "\"publish\", \"sub_callback\", \"sub_iter\", \"sub_next\", \"request\", "
               "\"js_publish\", \"js_async\", \"js_async_no_id\", \"js_many\", \"js_many_no_id\", "
               "\"js_arrow\", \"fetch\", \"fetch_ack\", \"fetch_ack_batch\", \"fetch_ack_sync\", "
               "\"fetch_ack_sync_batch\", \"fetch_arrow\", \"messages\", \"messages_ack\", "
               "\"messages_ack_sync\", \"consume\", \"consume_ack\", \"consume_ack_sync\", "
               "\"ordered\", \"push\", \"range_read\"]}\n");
        return 0;
    }
    meter_arguments = argv + 1;
    const char *workload = argument("workload");
    count = atol(argument("count"));
    size = atol(argument("size"));
    batch = atol(argument("batch"));
    if (batch < 2) batch = 500;
    if (is(workload, "fetch_arrow")) batch *= 10; /* as many as columns are made of at a time */
    payload = malloc(size + 1);
    memset(payload, 'x', size + 1);
    in_buffer = malloc(ROOM + READ_AT_ONCE);
    out_buffer = malloc(ROOM);
    connect_server();
    if (is(workload, "publish")) do_publish();
    else if (is(workload, "sub_callback sub_iter sub_next")) do_subscribe();
    else if (is(workload, "request js_publish")) do_request();
    else if (is(workload, "js_async js_many js_arrow")) do_publish_window(1);
    else if (is(workload, "js_async_no_id js_many_no_id")) do_publish_window(0);
    else if (is(workload, "fetch fetch_arrow")) do_pull(0, 0);
    else if (is(workload, "messages consume")) do_pull(0, 1);
    else if (is(workload, "fetch_ack fetch_ack_batch")) do_pull(1, 0);
    else if (is(workload, "messages_ack consume_ack")) do_pull(1, 1);
    else if (is(workload, "fetch_ack_sync messages_ack_sync consume_ack_sync")) do_pull_sync(0);
    else if (is(workload, "fetch_ack_sync_batch")) do_pull_sync(1);
    else if (is(workload, "ordered push")) do_push();
    else if (is(workload, "range_read")) do_ranges();
    else if (is(workload, "flood")) do_flood();
    else if (is(workload, "echo")) do_echo();
    else give_up("no such workload");
    return 0;
}
