/* toml_decode.c - decoder for the public toml-test suite: reads TOML on stdin, prints its tagged
 * JSON on stdout. Exits with 1 and a message if the input is not TOML, with 2 on other errors. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/toml.h"

enum { ARENA_BYTES_MAX = 256 * 1024 * 1024 };

static int read_all(int fd, struct buf *b)
{
    ssize_t n;

    do {
        int r = buf_reserve(b, 4096);

        if (r < 0)
            return r;
        n = read(fd, b->p + b->n, 4096);
        if (n > 0)
            buf_claim(b, (size_t)n);
    } while (n > 0);
    return n < 0 ? -1 : 0;
}

static void print_string(struct str s)
{
    putchar('"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void print_date(const struct toml_time *t)
{
    printf("%04d-%02d-%02d", t->year, t->month, t->day);
}

static void print_clock(const struct toml_time *t)
{
    printf("%02d:%02d:%02d", t->hour, t->minute, t->second);
    if (t->nanosecond)
        printf(".%09d", t->nanosecond);
}

static void print_offset(const struct toml_time *t)
{
    int minutes = abs(t->offset_minutes);

    if (t->offset_minutes == 0)
        printf("Z");
    else
        printf("%c%02d:%02d", t->offset_minutes < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

static void print_time(const struct toml *v)
{
    enum toml_type type = toml_type(v);
    struct toml_time t;

    if (toml_to_time(v, &t, NULL) < 0)
        return;
    putchar('"');
    if (type != TOML_LOCAL_TIME)
        print_date(&t);
    if (type == TOML_OFFSET_DATETIME || type == TOML_LOCAL_DATETIME)
        putchar('T');
    if (type != TOML_LOCAL_DATE)
        print_clock(&t);
    if (type == TOML_OFFSET_DATETIME)
        print_offset(&t);
    putchar('"');
}

static void print_float(double d)
{
    if (isnan(d))
        printf("\"nan\"");
    else if (isinf(d))
        printf("\"%sinf\"", d < 0 ? "-" : "+");
    else
        printf("\"%.17g\"", d);
}

static void print_scalar(const struct toml *v)
{
    static const char *const tags[TOML_TYPE_COUNT] = {
        [TOML_STRING] = "string",
        [TOML_INTEGER] = "integer",
        [TOML_FLOAT] = "float",
        [TOML_BOOL] = "bool",
        [TOML_OFFSET_DATETIME] = "datetime",
        [TOML_LOCAL_DATETIME] = "datetime-local",
        [TOML_LOCAL_DATE] = "date-local",
        [TOML_LOCAL_TIME] = "time-local",
    };
    struct str string;
    int64_t integer;
    bool boolean;
    double number;

    printf("{\"type\": \"%s\", \"value\": ", tags[toml_type(v)]);
    if (toml_to_str(v, &string, NULL) == 0)
        print_string(string);
    else if (toml_to_i64(v, &integer, NULL) == 0)
        printf("\"%lld\"", (long long)integer);
    else if (toml_to_double(v, &number, NULL) == 0)
        print_float(number);
    else if (toml_to_bool(v, &boolean, NULL) == 0)
        printf("\"%s\"", boolean ? "true" : "false");
    else
        print_time(v);
    putchar('}');
}

/* Recurses as deep as the document, at most TOML_DEPTH_MAX. */
static void print_value(const struct toml *v)
{
    bool table = toml_type(v) == TOML_TABLE;

    if (!table && toml_type(v) != TOML_ARRAY) {
        print_scalar(v);
        return;
    }
    putchar(table ? '{' : '[');
    for (const struct toml *c = toml_first(v); c; c = toml_next(c)) {
        if (c != toml_first(v))
            putchar(',');
        if (table) {
            print_string(toml_key(c));
            putchar(':');
        }
        print_value(c);
    }
    putchar(table ? '}' : ']');
}

int main(void)
{
    AUTO_BUF(text, TOML_TEXT_BYTES_MAX + 8192);
    AUTO_ARENA(arena, ARENA_BYTES_MAX);
    struct toml *root;
    struct err e = {0};

    if (read_all(STDIN_FILENO, &text) < 0) {
        fprintf(stderr, "cannot read standard input\n");
        return 2;
    }
    if (toml_parse(&arena, buf_str(&text), "stdin", &root, &e) < 0) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    print_value(root);
    putchar('\n');
    return fflush(stdout) ? 2 : 0;
}
