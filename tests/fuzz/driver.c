/* Runs a fuzz target where there is no libFuzzer: every seed as it is, then mutations of them.
 *
 *   TARGET SEED COUNT CORPUS [FIRST]     COUNT inputs from number FIRST on; 0: until killed
 *
 * Each input depends on SEED and its own number only, so that any one can be made again. */
#include <signal.h>

#include "fuzz.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#define MAX_SEEDS 2048
#define MAX_INPUT 4096

static jet_span seeds[MAX_SEEDS];
static size_t seed_count;
static uint64_t seed, number;

/* Words that get past the first checks more often than random bytes do. */
static const char *const words[] = {
    "MSG ", "HMSG ", "PING\r\n", "PONG\r\n", "INFO ", "-ERR ", "+OK\r\n", "\r\n", "NATS/1.0",
    "NATS/1.0 503", ": ", "A", " ", "  ", "\t", "0", "1", "12", "-1", "18446744073709551615",
    "18446744073709551616", "65536", "$JS.ACK.", "$JS.ACK.S.C.1.2.3.4.5", ".", "_", "{", "}", "\"",
    "\"seq\":", "\"stream\":", "\"duplicate\":", "true", ",", "\xEF\xBF\xBD", "\xFF", "\xE2\x82",
};

static void report(void) {
    fprintf(stderr, "again: seed %llu input %llu\n", (unsigned long long)seed,
            (unsigned long long)number);
}

static void on_abort(int signal_number) {
    (void)signal_number;
    report();
}

/* The file holds (32-bit length, bytes) records in the byte order of the machine. */
static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    uint32_t n;
    CHECK(file != NULL);
    while (seed_count < MAX_SEEDS && fread(&n, sizeof n, 1, file) == 1) {
        uint8_t *data = malloc(n ? n : 1);
        CHECK(fread(data, 1, n, file) == n);
        seeds[seed_count++] = jet_span_of(data, n);
    }
    fclose(file);
    CHECK(seed_count > 0);
}

static size_t add(uint8_t *to, size_t len, const void *bytes, size_t n) {
    if (n > MAX_INPUT - len) n = MAX_INPUT - len;
    memcpy(to + len, bytes, n);
    return len + n;
}

/* Seeds, words and random bytes in a row, then a few changes. */
static size_t make(uint8_t *to, uint64_t *random) {
    size_t len = 0;
    for (size_t parts = next_random(random) % 6; parts > 0; parts--) {
        uint64_t dice = next_random(random) % 8;
        if (dice < 4) {
            jet_span one = seeds[next_random(random) % seed_count];
            len = add(to, len, one.ptr, one.len);
        } else if (dice < 7) {
            for (size_t n = next_random(random) % 12; n > 0; n--) {
                const char *word = words[next_random(random) % (sizeof words / sizeof *words)];
                len = add(to, len, word, strlen(word));
            }
        } else {
            for (size_t n = next_random(random) % 30; n > 0; n--) {
                uint8_t byte = (uint8_t)next_random(random);
                len = add(to, len, &byte, 1);
            }
        }
    }
    for (size_t changes = next_random(random) % 4; len && changes > 0; changes--) {
        size_t at = next_random(random) % len;
        switch (next_random(random) % 4) {
        case 0: to[at] = (uint8_t)next_random(random); break;
        case 1: to[at] ^= (uint8_t)(1u << next_random(random) % 8); break;
        case 2: memmove(to + at, to + at + 1, len-- - at - 1); break;
        default: len = at; break;
        }
    }
    return len;
}

int main(int argc, char **argv) {
    static uint8_t made[MAX_INPUT];
    if (argc < 4) {
        fprintf(stderr, "usage: TARGET SEED COUNT CORPUS [FIRST]\n");
        return 2;
    }
    seed = strtoull(argv[1], NULL, 10);
    uint64_t count = strtoull(argv[2], NULL, 10);
    number = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    load(argv[3]);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_set_death_callback(report);
#endif
    signal(SIGABRT, on_abort);
    for (uint64_t last = number + count; count == 0 || number < last; number++) {
        uint64_t random = (seed * 0x9E3779B97F4A7C15ull) ^ ((number + 1) * 0xD1B54A32D192ED03ull);
        if (random == 0) random = 1;
        jet_span input = number < seed_count ? seeds[number] : jet_span_of(made, make(made, &random));
        jet_span alone = fenced(input);
        LLVMFuzzerTestOneInput(alone.ptr, alone.len);
        unfence(alone);
    }
    for (size_t i = 0; i < seed_count; i++) unfence(seeds[i]);
    return 0;
}
