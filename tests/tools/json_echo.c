/* json_echo.c - reads a JSON document on stdin and prints it again, or the error (exit 1).
 *
 *   json_echo                  one document
 *   json_echo --batch          many: each is "LENGTH\n" and that many bytes; each answer is
 *                              "ok LENGTH\n" or "no LENGTH\n", then document or error
 *   json_echo --doubles        a hexadecimal IEEE 754 double per line; prints each as a number
 *   json_echo --bench ROUNDS   parses one document that often, prints MiB/s
 *
 * Flags before these: --replace, --last, --first, --depth N; --values prints numbers from their
 * decoded value instead of their text. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/json_write.h"

enum { BYTES_MAX = 64 << 20, ARENA_BYTES_MAX = 512 << 20 };

struct options {
    struct json_limits limits;
    bool values;
};

static void write_number(struct json_writer *w, const struct json *v)
{
    if (v->number == JSON_INT)
        json_write_i64(w, v->i64);
    else if (v->number == JSON_UINT)
        json_write_u64(w, v->u64);
    else
        json_write_double(w, v->real);
}

/* Like json_write_value(), except for numbers. The parser's depth limit bounds the recursion. */
static void write_by_value(struct json_writer *w, const struct json *v)
{
    if (v->type == JSON_NUMBER) {
        write_number(w, v);
    } else if (v->type == JSON_ARRAY) {
        json_write_array(w);
        json_each(item, v) write_by_value(w, item);
        json_write_array_end(w);
    } else if (v->type == JSON_OBJECT) {
        json_write_object(w);
        json_each(member, v)
        {
            json_write_key(w, member->key);
            write_by_value(w, member);
        }
        json_write_object_end(w);
    } else {
        json_write_value(w, v);
    }
}

static int echo_document(struct str text, const struct options *options, struct buf *out,
                         struct err *e)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    struct json_writer w;
    struct json *v;
    int r = json_parse(&a, text, &options->limits, &v, e);

    if (r < 0)
        return r;
    json_write_begin(&w, out);
    if (options->values)
        write_by_value(&w, v);
    else
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

static int run_single(const struct options *options)
{
    AUTO_BUF(in, BYTES_MAX);
    AUTO_BUF(out, BYTES_MAX);
    struct err e = {0};
    int r = read_all(&in);

    if (r == 0)
        r = echo_document(buf_str(&in), options, &out, &e);
    if (r < 0) {
        fprintf(stderr, "json_echo: %s\n", e.code ? e.msg : strerror(-r));
        return 1;
    }
    fwrite(out.p, 1, out.n, stdout);
    return 0;
}

/* Removes one "LENGTH\n" and its bytes from the front of *in. */
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

static int run_batch(const struct options *options)
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
        ok = echo_document(text, options, &out, &e) == 0;
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

static int run_bench(const struct options *options, struct str rounds_text)
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
        if (json_parse(&a, buf_str(&in), &options->limits, &v, NULL) < 0)
            return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    printf("%.1f MiB/s\n", (double)in.n * (double)rounds / seconds / (1 << 20));
    return 0;
}

/* Parses the flags; returns the index of the first other argument. */
static int parse_flags(int argc, char **argv, struct options *o)
{
    uint64_t depth;
    int i = 1;

    for (; i < argc; i++) {
        struct str arg = str_of(argv[i]);

        if (str_eq(arg, STR("--replace")))
            o->limits.replace_invalid = true;
        else if (str_eq(arg, STR("--last")))
            o->limits.duplicates = JSON_DUPLICATES_LAST;
        else if (str_eq(arg, STR("--first")))
            o->limits.duplicates = JSON_DUPLICATES_FIRST;
        else if (str_eq(arg, STR("--values")))
            o->values = true;
        else if (str_eq(arg, STR("--depth")) && i + 1 < argc &&
                 str_to_u64_range(str_of(argv[i + 1]), 1, JSON_DEPTH_CEILING, &depth) == 0)
            o->limits.depth_max = (unsigned)depth, i++;
        else
            break;
    }
    return i;
}

int main(int argc, char **argv)
{
    struct options options = {.limits = {.text_bytes_max = BYTES_MAX}};
    int i = parse_flags(argc, argv, &options);

    if (i == argc)
        return run_single(&options);
    if (i + 1 == argc && str_eq(str_of(argv[i]), STR("--batch")))
        return run_batch(&options);
    if (i + 1 == argc && str_eq(str_of(argv[i]), STR("--doubles")))
        return run_doubles();
    if (i + 2 == argc && str_eq(str_of(argv[i]), STR("--bench")))
        return run_bench(&options, str_of(argv[i + 1]));
    fprintf(stderr, "usage: json_echo [FLAGS] [--batch | --doubles | --bench ROUNDS]\n");
    return 2;
}
