/* What the peers in C share: arguments, clock and answer. meter.py says how a peer talks. */
#ifndef METER_H
#define METER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static char **meter_arguments;

/* The value of key=value among the arguments, or an empty text. */
static const char *argument(const char *key) {
    size_t length = strlen(key);
    for (char **each = meter_arguments; *each; each++) {
        if (strncmp(*each, key, length) == 0 && (*each)[length] == '=') return *each + length + 1;
    }
    return "";
}

static void give_up(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static double own_cpu(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static double cpu_of(const char *pid) {
    char path[64], text[1024];
    unsigned long user = 0, sys = 0;
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    char *rest = strrchr(text, ')');
    if (rest) sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys);
    return (double)(user + sys) / sysconf(_SC_CLK_TCK);
}

__attribute__((unused)) static long resident_bytes(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &all, &resident) != 2) resident = 0;
    if (file) fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static double meter_wall, meter_cpu, meter_server;

static void meter_start(void) {
    char line[16];
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) give_up("the driver is gone");
    meter_server = cpu_of(argument("server"));
    meter_cpu = own_cpu();
    meter_wall = now_seconds();
}

/* Print the figures; more is a further piece of JSON, or empty. */
static void meter_stop(long messages, long touched, long size, const char *more) {
    double wall = now_seconds() - meter_wall, cpu = own_cpu() - meter_cpu;
    double server = cpu_of(argument("server")) - meter_server;
    if (touched != messages * size) give_up("not every payload was touched");
    printf("{\"wall\": %.9f, \"cpu\": %.6f, \"server_cpu\": %.3f, \"messages\": %ld%s}\n", wall, cpu,
           server, messages, more);
    fflush(stdout);
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void meter_stop_timed(double *durations, long count) {
    char more[128];
    double wall_end = now_seconds(), cpu_end = own_cpu();
    double server = cpu_of(argument("server")) - meter_server;
    qsort(durations, count, sizeof *durations, by_size);
    snprintf(more, sizeof more, ", \"p50_us\": %.2f, \"p99_us\": %.2f",
             durations[(count - 1) / 2] * 1e6, durations[(long)((count - 1) * 0.99)] * 1e6);
    printf("{\"wall\": %.9f, \"cpu\": %.6f, \"server_cpu\": %.3f, \"messages\": %ld%s}\n",
           wall_end - meter_wall, cpu_end - meter_cpu, server, count, more);
    fflush(stdout);
}

#endif
