/* Runs one suite: jet_tests NAME [FILE]. Prints nothing and returns 0 when all is well. */
#include "check.h"

static const struct {
    const char *name;
    void (*run)(void);
} suites[] = {
    {"blake2", suite_blake2},   {"tally", suite_tally},
    {"buf", suite_buf},         {"chain", suite_chain},   {"columns", suite_columns},
    {"encode", suite_encode},   {"header", suite_header}, {"jsack", suite_jsack},
    {"lines", suite_lines},
    {"parser", suite_parser},   {"puback", suite_puback}, {"slots", suite_slots},
    {"stored", suite_stored},   {"subject", suite_subject}, {"token", suite_token},
    {"utf8", suite_utf8},
    {"inbound", suite_inbound},
    {"outbound", suite_outbound},
    {"queue", suite_queue},
    {"heartbeats", suite_heartbeats},
    {"keep", suite_keep},
    {"reader_turn", suite_reader_turn},
    {"resend", suite_resend},
    {"send", suite_send},
    {"sync", suite_sync},
    {"turn", suite_turn},
    {"wakeup", suite_wakeup},
    {"websocket", suite_websocket},
    {"websocket_link", suite_websocket_link},
};

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "golden") == 0) {
        suite_golden(argv[2]);
        return 0;
    }
    for (size_t i = 0; argc == 2 && i < sizeof suites / sizeof *suites; i++) {
        if (strcmp(argv[1], suites[i].name) == 0) {
            suites[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: jet_tests SUITE, or jet_tests golden FILE\n");
    return 2;
}
