/* fuzz.h - a fuzzer is one function over foreign bytes, in tests/fuzz/fuzz_<name>.c.
 *
 * `make fuzz` links it with libFuzzer; every other build links it with replay.c, which feeds it the
 * files of tests/fuzz/corpus/<name>/ as a plain test. It must not keep state between calls, and
 * states its expectations (what parses must print, print and parse again, ...) with FUZZ_CHECK. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)
