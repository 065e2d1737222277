/* fuzz_json.c - what parses must print, parse again, and print the same; binding must not crash. */
#include "fuzz.h"

#include "base/json_bind.h"
#include "base/json_write.h"
#include "base/utf8.h"

enum { FUZZ_ARENA_MAX = 32 << 20 };

struct sample {
    struct str name;
    int kind;
    uint16_t port;
    int64_t offset;
    double ratio;
    const struct json *raw;
    struct sample *items;
    size_t items_count;
    struct json_pair *labels;
    size_t labels_count;
    bool flag, flag_seen;
};

static const struct json_name kinds[] = {
    {"a",  1},
    {"b",  2},
    {NULL, 0},
};

extern const struct json_table sample_table;
static const struct json_field sample_element = {NULL, JSON_AS_OBJECT, .table = &sample_table};
static const struct json_field sample_fields[] = {
    JSON_FIELD("a", JSON_AS_STR, JSON_NULLABLE, struct sample, name, .min = 1, .max = 20),
    JSON_FIELD("b", JSON_AS_ENUM, 0, struct sample, kind, .names = kinds),
    JSON_FIELD("c", JSON_AS_U16, 0, struct sample, port, .min = 1, .max = 1000),
    JSON_FIELD("d", JSON_AS_I64, 0, struct sample, offset),
    JSON_FIELD("e", JSON_AS_DOUBLE, 0, struct sample, ratio),
    JSON_FIELD("f", JSON_AS_RAW, 0, struct sample, raw),
    JSON_LIST("g", JSON_AS_ARRAY, 0, struct sample, items, .element = &sample_element),
    JSON_LIST("h", JSON_AS_MAP, 0, struct sample, labels),
    JSON_FIELD("i", JSON_AS_BOOL, 0, struct sample, flag,
               .seen_at = JSON_SEEN(struct sample, flag_seen)),
};
const struct json_table sample_table = JSON_TABLE(struct sample, sample_fields, JSON_STRICT);

static void print(const struct json *v, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_value(&w, v);
    FUZZ_CHECK(json_write_end(&w) == 0);
}

static void check_round_trip(const struct json *v, const struct json_limits *limits)
{
    AUTO_ARENA(a, FUZZ_ARENA_MAX);
    AUTO_BUF(once, FUZZ_ARENA_MAX);
    AUTO_BUF(twice, FUZZ_ARENA_MAX);
    struct json_limits same = *limits;
    struct json *again;

    same.replace_invalid = false; /* what we print is valid */
    same.duplicates = JSON_DUPLICATES_REJECT;
    print(v, &once);
    FUZZ_CHECK(utf8_valid(buf_str(&once)));
    FUZZ_CHECK(json_parse(&a, buf_str(&once), &same, &again, NULL) == 0);
    print(again, &twice);
    FUZZ_CHECK(str_eq(buf_str(&once), buf_str(&twice)));
}

static void check_bind(struct arena *a, const struct json *v)
{
    struct sample sample = {0};
    struct err e = {0};
    int r = json_bind(a, v, &sample_table, &sample, &e);

    FUZZ_CHECK(r == 0 || (r == -e.code && e.msg[0]));
}

/* Prints every double of a tree the short way; it must read back as the same number. */
static void check_double(const struct json *v)
{
    AUTO_ARENA(a, FUZZ_ARENA_MAX);
    AUTO_BUF(out, 64);
    struct json_writer w;
    struct json *again;
    double was, is;

    if (json_to_double(v, &was) < 0)
        return;
    json_write_begin(&w, &out);
    json_write_double(&w, was);
    FUZZ_CHECK(json_write_end(&w) == 0);
    FUZZ_CHECK(json_parse(&a, buf_str(&out), NULL, &again, NULL) == 0);
    FUZZ_CHECK(json_to_double(again, &is) == 0 && is == was);
}

/* Judging in pieces must agree with judging the whole. */
static void check_utf8(struct str text)
{
    struct utf8_state state = {0};

    for (size_t at = 0, piece = 1; at < text.n; at += piece, piece = piece % 7 + 1) {
        struct str rest = str_skip(text, at);
        int r = utf8_feed(&state, str_make(rest.p, min_size(piece, rest.n)));

        FUZZ_CHECK((r == 0) == !state.bad);
    }
    FUZZ_CHECK(utf8_at_boundary(&state) == utf8_valid(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct json_limits policies[] = {
        {0},
        {                                   .duplicates = JSON_DUPLICATES_LAST,
         .replace_invalid = true,
         .depth_max = JSON_DEPTH_CEILING},
        { .duplicates = JSON_DUPLICATES_FIRST,
         .depth_max = 3,
         .nodes_max = 20,
         .string_bytes_max = 9},
    };
    struct str text = str_make((const char *)data, size);

    check_utf8(text);
    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        AUTO_ARENA(a, FUZZ_ARENA_MAX);
        struct json_limits limits = policies[i];
        struct err e = {0};
        struct json *v;
        int r = json_parse(&a, text, &limits, &v, &e);

        FUZZ_CHECK(r == 0 || (r == -e.code && e.msg[0]));
        if (r < 0)
            continue;
        limits.string_bytes_max = 0; /* a replaced byte grows */
        check_round_trip(v, &limits);
        check_double(v);
        check_bind(&a, v);
    }
    return 0;
}
