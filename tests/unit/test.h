/* test.h - a unit test is a sentence: TEST(module, does_what) { CHECK...; }. TAP on standard
 * output.
 *
 * A failed CHECK prints file, line and both values, and ends that test. Each test runs in a child
 * process, so a crash or a hang (240 s) fails one test and not the program. */
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct test_case {
    const char *module, *name;
    void (*run)(void);
    struct test_case *next;
};
void test_register(struct test_case *t);
_Noreturn void test_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the current test as skipped; the reason must be true on this machine. */
_Noreturn void test_skip(const char *reason);

#define TEST(mod, sentence)                                                                        \
    static void test_##mod##_##sentence(void);                                                     \
    __attribute__((constructor)) static void register_##mod##_##sentence(void)                     \
    {                                                                                              \
        static struct test_case t = {#mod, #sentence, test_##mod##_##sentence, NULL};              \
        test_register(&t);                                                                         \
    }                                                                                              \
    static void test_##mod##_##sentence(void)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            test_fail(__FILE__, __LINE__, "%s", #condition);                                       \
    } while (0)

#define CHECK_EQ(got, want)                                                                        \
    do {                                                                                           \
        long long got_ = (long long)(got), want_ = (long long)(want);                              \
        if (got_ != want_)                                                                         \
            test_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #got, got_, want_);              \
    } while (0)

/* Compares C strings. */
#define CHECK_STR(got, want)                                                                       \
    do {                                                                                           \
        const char *got_ = (got), *want_ = (want);                                                 \
        if (!got_ || strcmp(got_, want_) != 0)                                                     \
            test_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #got,                        \
                      got_ ? got_ : "(null)", want_);                                              \
    } while (0)

/* Compares a struct str with a literal. */
#define CHECK_SPAN(got, want)                                                                      \
    do {                                                                                           \
        struct str got_ = (got), want_ = STR(want);                                                \
        if (!str_eq(got_, want_))                                                                  \
            test_fail(__FILE__, __LINE__, "%s is \"%.*s\", not \"%s\"", #got, STR_ARG(got_),       \
                      want_.p);                                                                    \
    } while (0)
