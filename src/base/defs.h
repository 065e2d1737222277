/* defs.h - macros that every file may use. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define PRINTF_LIKE(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))
#define MUST_USE                          __attribute__((warn_unused_result))
#define UNUSED                            __attribute__((unused))
#define NORETURN                          __attribute__((noreturn))

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}
