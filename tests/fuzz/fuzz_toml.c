/* What parses is walked, printed as TOML again and must then parse to an equal tree. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/toml.h"
#include "fuzz.h"

enum { ARENA_MAX = 64 * 1024 * 1024, PRINT_INPUT_MAX = 64 * 1024, PRINT_MAX = 4 * 1024 * 1024 };

static void check_place(const struct toml *v, uint32_t lines)
{
    FUZZ_CHECK(toml_pos(v).line >= 1 && toml_pos(v).line <= lines);
    FUZZ_CHECK(toml_pos(v).column >= 1);
    FUZZ_CHECK(toml_key_pos(v).line <= toml_pos(v).line);
}

static void check_tree(const struct toml *v, uint32_t lines, int depth)
{
    size_t count = 0;
    struct str s;

    FUZZ_CHECK(depth <= TOML_DEPTH_MAX);
    check_place(v, lines);
    if (toml_to_str(v, &s, NULL) == 0)
        FUZZ_CHECK(s.p[s.n] == '\0');
    for (const struct toml *c = toml_first(v); c; c = toml_next(c)) {
        count++;
        FUZZ_CHECK((toml_key(c).p != NULL) == (toml_type(v) == TOML_TABLE));
        if (toml_type(v) == TOML_TABLE)
            FUZZ_CHECK(toml_get(v, toml_key(c)) == c);
        check_tree(c, lines, depth + 1);
    }
    FUZZ_CHECK(count == toml_count(v));
}

static void print_string(struct buf *b, struct str s)
{
    buf_add_char(b, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            buf_addf(b, "\\u%04x", c);
        else
            buf_add_char(b, (char)c);
    }
    buf_add_char(b, '"');
}

static void print_double(struct buf *b, double d)
{
    size_t start = b->n;

    buf_addf(b, "%.17g", d);
    if (!strpbrk(b->p + start, ".enai"))
        buf_add(b, STR(".0"));
}

static void print_scalar(struct buf *b, const struct toml *v)
{
    struct toml_time t;
    struct str s;
    int64_t i;
    double d;
    bool yes;

    if (toml_to_str(v, &s, NULL) == 0)
        print_string(b, s);
    else if (toml_to_i64(v, &i, NULL) == 0)
        buf_addf(b, "%" PRId64, i);
    else if (toml_to_double(v, &d, NULL) == 0 && isnan(d))
        buf_add(b, STR("nan"));
    else if (toml_to_double(v, &d, NULL) == 0)
        print_double(b, d);
    else if (toml_to_bool(v, &yes, NULL) == 0)
        buf_add(b, yes ? STR("true") : STR("false"));
    else if (toml_to_time(v, &t, NULL) == 0)
        buf_add(b, t.text);
    else
        FUZZ_CHECK(!"a value of no type");
}

static void print_value(struct buf *b, const struct toml *v)
{
    bool table = toml_type(v) == TOML_TABLE;

    if (!table && toml_type(v) != TOML_ARRAY) {
        print_scalar(b, v);
        return;
    }
    buf_add_char(b, table ? '{' : '[');
    for (const struct toml *c = toml_first(v); c; c = toml_next(c)) {
        if (c != toml_first(v))
            buf_add_char(b, ',');
        if (table) {
            print_string(b, toml_key(c));
            buf_add_char(b, '=');
        }
        print_value(b, c);
    }
    buf_add_char(b, table ? '}' : ']');
}

static void print_document(struct buf *b, const struct toml *root)
{
    for (const struct toml *c = toml_first(root); c; c = toml_next(c)) {
        print_string(b, toml_key(c));
        buf_add_char(b, '=');
        print_value(b, c);
        buf_add_char(b, '\n');
    }
}

static void check_round_trip(const struct toml *root)
{
    AUTO_ARENA(arena, ARENA_MAX);
    AUTO_BUF(first, PRINT_MAX);
    AUTO_BUF(second, PRINT_MAX);
    struct toml *again;
    struct err e = {0};

    print_document(&first, root);
    FUZZ_CHECK(toml_parse(&arena, buf_str(&first), "again", &again, &e) == 0);
    print_document(&second, again);
    FUZZ_CHECK(str_eq(buf_str(&first), buf_str(&second)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_ARENA(arena, ARENA_MAX);
    struct toml *root = NULL;
    struct err e = {0};
    uint32_t lines = 1;
    int r = toml_parse(&arena, str_make((const char *)data, size), "fuzz", &root, &e);

    if (r < 0) {
        FUZZ_CHECK(!root && e.code == -r);
        FUZZ_CHECK(strncmp(e.msg, "fuzz:", 5) == 0);
        return 0;
    }
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    check_tree(root, lines, 0);
    if (size <= PRINT_INPUT_MAX)
        check_round_trip(root);
    return 0;
}
