/* json_echo.c - reads a JSON document on standard input and prints it again, or the error (exit 1).
 *
 *   json_echo                  one document
 *   json_echo --batch          many: each is "LENGTH\n" and so many bytes; each answer is
 *                              "ok LENGTH\n" or "no LENGTH\n" and so many bytes of document or
 * error json_echo --doubles        a hexadecimal IEEE 754 double per line; prints each as a number
 *   json_echo --bench ROUNDS   parses one document so often, prints MiB/s
 *
 * Flags before these: --replace, --last, --first, --depth N. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/json_write.h"

enum { BYTES_MAX = 64 << 20, ARENA_BYTES_MAX = 512 << 20 };

static int echo_document(struct str text, const struct json_limits *limits, struct buf *out,
                         struct err *e)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    struct json_writer w;
    struct json *v;
    int r = json_parse(&a, text, limits, &v, e);

    if (r < 0)
        return r;
    json_write_begin(&w, out);
    json_write_value(&w, v);
    r = json_write_end(&w);
    return r < 0 ? err_sys(e, -r, "write") : 0;
}

static int read_all(struct buf *in)
{
    for (;;) {
        ssize_t n;
        int r = buf_reserve(in, 65536);

        if (r < 0)
            return r;
        n = read(STDIN_FILENO, in->p + in->n, 65536);
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        buf_claim(in, (size_t)n);
    }
}

static int run_single(const struct json_limits *limits)
{
    AUTO_BUF(in, BYTES_MAX);
    AUTO_BUF(out, BYTES_MAX);
    struct err e = {0};
    int r = read_all(&in);

    if (r == 0)
        r = echo_document(buf_str(&in), limits, &out, &e);
    if (r < 0) {
        fprintf(stderr, "json_echo: %s\n", e.code ? e.msg : strerror(-r));
        return 1;
    }
    fwrite(out.p, 1, out.n, stdout);
    return 0;
}

/* Takes one "LENGTH\n" and its bytes off the front of *in. */
static int take_document(struct str *in, struct str *ret_text)
{
    size_t line = str_find(*in, '\n');
    uint64_t n;

    if (line == in->n || str_to_u64(str_make(in->p, line), &n) < 0 || n > in->n - line - 1)
        return -EINVAL;
    *ret_text = str_make(in->p + line + 1, n);
    *in = str_skip(*in, line + 1 + n);
    return 0;
}

static int run_batch(const struct json_limits *limits)
{
    AUTO_BUF(in, BYTES_MAX);
    AUTO_BUF(out, BYTES_MAX);
    struct str rest, text;

    if (read_all(&in) < 0)
        return 2;
    for (rest = buf_str(&in); rest.n;) {
        struct err e = {0};
        bool ok;

        if (take_document(&rest, &text) < 0)
            return 2;
        buf_clear(&out);
        ok = echo_document(text, limits, &out, &e) == 0;
        if (!ok)
            buf_add(&out, str_of(e.msg));
        printf("%s %zu\n", ok ? "ok" : "no", out.n);
        fwrite(out.p, 1, out.n, stdout);
    }
    return 0;
}

static int run_doubles(void)
{
    AUTO_BUF(in, BYTES_MAX);
    AUTO_BUF(out, 4096);
    struct str rest, line;

    if (read_all(&in) < 0)
        return 2;
    rest = buf_str(&in);
    while (str_cut(&rest, '\n', &line) && line.n) {
        struct json_writer w;
        uint64_t bits;
        double v;

        if (str_to_hex_u64(line, &bits) < 0)
            return 2;
        memcpy(&v, &bits, sizeof(v));
        buf_clear(&out);
        json_write_begin(&w, &out);
        json_write_double(&w, v);
        printf("%s\n", json_write_end(&w) < 0 ? "error" : out.p);
    }
    return 0;
}

static int run_bench(const struct json_limits *limits, struct str rounds_text)
{
    AUTO_BUF(in, BYTES_MAX);
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    struct timespec from, to;
    uint64_t rounds;
    double seconds;

    if (str_to_u64(rounds_text, &rounds) < 0 || read_all(&in) < 0)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (uint64_t i = 0; i < rounds; i++) {
        struct json *v;

        arena_reset(&a);
        if (json_parse(&a, buf_str(&in), limits, &v, NULL) < 0)
            return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    printf("%.1f MiB/s\n", (double)in.n * (double)rounds / seconds / (1 << 20));
    return 0;
}

int main(int argc, char **argv)
{
    struct json_limits limits = {.text_bytes_max = BYTES_MAX};
    uint64_t depth = 0;
    int i = 1;

    for (; i < argc; i++) {
        struct str arg = str_of(argv[i]);

        if (str_eq(arg, STR("--replace")))
            limits.replace_invalid = true;
        else if (str_eq(arg, STR("--last")))
            limits.duplicates = JSON_DUPLICATES_LAST;
        else if (str_eq(arg, STR("--first")))
            limits.duplicates = JSON_DUPLICATES_FIRST;
        else if (str_eq(arg, STR("--depth")) && i + 1 < argc &&
                 str_to_u64_range(str_of(argv[i + 1]), 1, JSON_DEPTH_CEILING, &depth) == 0)
            i++;
        else
            break;
    }
    limits.depth_max = (unsigned)depth;
    if (i == argc)
        return run_single(&limits);
    if (i + 1 == argc && str_eq(str_of(argv[i]), STR("--batch")))
        return run_batch(&limits);
    if (i + 1 == argc && str_eq(str_of(argv[i]), STR("--doubles")))
        return run_doubles();
    if (i + 2 == argc && str_eq(str_of(argv[i]), STR("--bench")))
        return run_bench(&limits, str_of(argv[i + 1]));
    fprintf(stderr, "usage: json_echo [FLAGS] [--batch | --doubles | --bench ROUNDS]\n");
    return 2;
}
