#include "base/toml.h"

#include <math.h>
#include <time.h>

#include "base/buf.h"
#include "base/fault.h"
#include "test.h"

enum { ARENA_MAX = 64 * 1024 * 1024 };

static const struct toml *parse(struct arena *a, const char *text)
{
    struct toml *root = NULL;
    struct err e = {0};

    if (toml_parse(a, str_of(text), "t", &root, &e) < 0)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    return root;
}

static struct str string_at(const struct toml *root, const char *path)
{
    const struct toml *v = toml_get_path(root, str_of(path));
    struct str s = STR_NONE;

    if (!v || toml_to_str(v, &s, NULL) < 0)
        test_fail(__FILE__, __LINE__, "no string at %s", path);
    return s;
}

static int64_t integer_at(const struct toml *root, const char *path)
{
    const struct toml *v = toml_get_path(root, str_of(path));
    int64_t i = 0;

    if (!v || toml_to_i64(v, &i, NULL) < 0)
        test_fail(__FILE__, __LINE__, "no integer at %s", path);
    return i;
}

static double double_at(const struct toml *root, const char *path)
{
    const struct toml *v = toml_get_path(root, str_of(path));
    double d = 0;

    if (!v || toml_type(v) != TOML_FLOAT || toml_to_double(v, &d, NULL) < 0)
        test_fail(__FILE__, __LINE__, "no float at %s", path);
    return d;
}

static struct toml_time time_at(const struct toml *root, const char *path, enum toml_type type)
{
    const struct toml *v = toml_get_path(root, str_of(path));
    struct toml_time t = {0};

    if (!v || toml_type(v) != type || toml_to_time(v, &t, NULL) < 0)
        test_fail(__FILE__, __LINE__, "no %s at %s", toml_type_name(type), path);
    return t;
}

TEST(toml, reads_an_empty_document_as_an_empty_table)
{
    AUTO_ARENA(a, ARENA_MAX);
    struct toml *root = NULL;

    CHECK_EQ(toml_parse(&a, STR_NONE, "t", &root, NULL), 0);
    CHECK_EQ(toml_type(root), TOML_TABLE);
    CHECK_EQ(toml_count(root), 0);
    CHECK(!toml_first(root));
    CHECK(!toml_get(root, STR("a")));
    CHECK_EQ(toml_count(parse(&a, "\xef\xbb\xbf# only a mark and a comment")), 0);
}

TEST(toml, reads_strings_of_all_four_kinds)
{
    AUTO_ARENA(a, ARENA_MAX);
    const struct toml *root = parse(&a, "basic = \"a\\tb \\u00e9 \\U0001F600 \\\"\"\n"
                                        "literal = 'C:\\temp'\n"
                                        "multi = \"\"\"\nfirst\r\nsecond \\\n\n   joined\"\"\"\n"
                                        "raw = '''\nit's \\raw'''\n"
                                        "quotes = \"\"\"\"two\"\" \"\"\"\"\"\n"
                                        "empty = \"\"\n");

    CHECK_SPAN(string_at(root, "basic"), "a\tb \xc3\xa9 \xf0\x9f\x98\x80 \"");
    CHECK_SPAN(string_at(root, "literal"), "C:\\temp");
    CHECK_SPAN(string_at(root, "multi"), "first\nsecond joined");
    CHECK_SPAN(string_at(root, "raw"), "it's \\raw");
    CHECK_SPAN(string_at(root, "quotes"), "\"two\"\" \"\"");
    CHECK_SPAN(string_at(root, "empty"), "");
}

TEST(toml, keeps_a_nul_that_was_written_as_an_escape)
{
    AUTO_ARENA(a, ARENA_MAX);
    const struct toml *root = parse(&a, "s = 'x'\n\"\\u0000\" = \"a\\u0000b\"\n\"\" = 1\n");
    const struct toml *v = toml_get(root, STR("\0"));
    struct str s;

    CHECK(v);
    CHECK_EQ(toml_to_str(v, &s, NULL), 0);
    CHECK(str_eq(s, STR("a\0b")));
    CHECK_EQ(s.p[s.n], 0);
    CHECK(toml_get(root, STR("")) && toml_get(root, STR("")) != v);
}

TEST(toml, reads_integers_up_to_both_ends_of_64_bits)
{
    AUTO_ARENA(a, ARENA_MAX);
    const struct toml *root = parse(&a, "max = 9_223_372_036_854_775_807\n"
                                        "min = -9223372036854775808\n"
                                        "hex = 0xDEAD_beef\noct = 0o755\nbin = 0b1010\n"
                                        "big = 0x7fffffffffffffff\nplus = +7\nzero = -0\n");

    CHECK_EQ(integer_at(root, "max"), INT64_MAX);
    CHECK_EQ(integer_at(root, "min"), INT64_MIN);
    CHECK_EQ(integer_at(root, "hex"), 0xdeadbeef);
    CHECK_EQ(integer_at(root, "oct"), 0755);
    CHECK_EQ(integer_at(root, "bin"), 10);
    CHECK_EQ(integer_at(root, "big"), INT64_MAX);
    CHECK_EQ(integer_at(root, "plus"), 7);
    CHECK_EQ(integer_at(root, "zero"), 0);
}

TEST(toml, reads_floats)
{
    AUTO_ARENA(a, ARENA_MAX);
    const struct toml *root = parse(&a, "a = 3.141_5\nb = -1e-2\nc = 6.5E+3\nd = +inf\ne = -inf\n"
                                        "f = nan\ng = -0.0\nh = 1e-400\ni = 0e00\n");

    CHECK(double_at(root, "a") == 3.1415);
    CHECK(double_at(root, "b") == -0.01);
    CHECK(double_at(root, "c") == 6500.0);
    CHECK(isinf(double_at(root, "d")) && double_at(root, "d") > 0);
    CHECK(isinf(double_at(root, "e")) && double_at(root, "e") < 0);
    CHECK(isnan(double_at(root, "f")));
    CHECK(double_at(root, "g") == 0 && signbit(double_at(root, "g")));
    CHECK(double_at(root, "h") == 0);
    CHECK(double_at(root, "i") == 0);
}

TEST(toml, reads_dates_and_times_into_their_parts)
{
    AUTO_ARENA(a, ARENA_MAX);
    const struct toml *root = parse(&a, "off = 1979-05-27T00:32:00.5-07:30\n"
                                        "utc = 2000-02-29 23:59:60z\n"
                                        "local = 1979-05-27t07:32:00.123456789999\n"
                                        "date = 1979-05-27 # not a date-time\n"
                                        "clock = 07:32:01\n");
    struct toml_time t = time_at(root, "off", TOML_OFFSET_DATETIME);

    CHECK(t.year == 1979 && t.month == 5 && t.day == 27);
    CHECK(t.hour == 0 && t.minute == 32 && t.second == 0);
    CHECK_EQ(t.nanosecond, 500000000);
    CHECK_EQ(t.offset_minutes, -450);
    CHECK_SPAN(t.text, "1979-05-27T00:32:00.5-07:30");
    t = time_at(root, "utc", TOML_OFFSET_DATETIME);
    CHECK(t.day == 29 && t.second == 60 && t.offset_minutes == 0);
    CHECK_EQ(time_at(root, "local", TOML_LOCAL_DATETIME).nanosecond, 123456789);
    CHECK_SPAN(time_at(root, "date", TOML_LOCAL_DATE).text, "1979-05-27");
    t = time_at(root, "clock", TOML_LOCAL_TIME);
    CHECK(t.year == 0 && t.hour == 7 && t.minute == 32 && t.second == 1);
}

TEST(toml, joins_headers_dotted_keys_and_inline_tables_into_one_tree)
{
    AUTO_ARENA(a, ARENA_MAX);
    const struct toml *root = parse(&a, "top = 1\n"
                                        "[server]\nhost = 'h'\ntls.cert = 'c'\ntls.key = 'k'\n"
                                        "[server.limits]\nbody = 10\n"
                                        "[a.b.c]\nx = 1\n[a]\ny = 2\nb.z = 3\n"
                                        "[inline]\np = { q.r = 4, s = [ { t = 5 }, ] }\n");

    CHECK_EQ(integer_at(root, "top"), 1);
    CHECK_SPAN(string_at(root, "server.tls.key"), "k");
    CHECK_EQ(integer_at(root, "server.limits.body"), 10);
    CHECK_EQ(integer_at(root, "a.b.c.x"), 1);
    CHECK_EQ(integer_at(root, "a.y"), 2);
    CHECK_EQ(integer_at(root, "a.b.z"), 3);
    CHECK_EQ(integer_at(root, "inline.p.q.r"), 4);
    CHECK(!toml_get_path(root, STR("inline.p.q.r.s")));
    CHECK(!toml_get_path(root, STR("inline..p")));
    CHECK(!toml_get_path(NULL, STR("a")));
}

TEST(toml, adds_an_element_for_every_double_bracket)
{
    AUTO_ARENA(a, ARENA_MAX);
    const struct toml *root = parse(&a, "[[pool]]\nname = 'a'\n[pool.net]\nmtu = 1\n"
                                        "[[pool]]\n[pool.net]\nmtu = 2\n[[pool.volume]]\n"
                                        "[[pool.volume]]\n");
    const struct toml *pool = toml_get(root, STR("pool")), *second;

    CHECK_EQ(toml_type(pool), TOML_ARRAY);
    CHECK_EQ(toml_count(pool), 2);
    CHECK_EQ(integer_at(toml_first(pool), "net.mtu"), 1);
    second = toml_next(toml_first(pool));
    CHECK_EQ(integer_at(second, "net.mtu"), 2);
    CHECK_EQ(toml_count(toml_get(second, STR("volume"))), 2);
    CHECK(!toml_next(second));
    CHECK(!toml_key(second).p);
}

TEST(toml, iterates_in_source_order)
{
    AUTO_ARENA(a, ARENA_MAX);
    const struct toml *root = parse(&a, "zebra = 1\nalpha = 2\n'' = 3\nmid.b = 4\nal = 5\n");
    AUTO_BUF(keys, 64);

    for (const struct toml *c = toml_first(root); c; c = toml_next(c)) {
        CHECK_EQ(buf_addf(&keys, "%.*s,", STR_ARG(toml_key(c))), 0);
        CHECK(toml_get(root, toml_key(c)) == c);
    }
    CHECK_STR(keys.p, "zebra,alpha,,mid,al,");
    CHECK(!toml_first(toml_get(root, STR("zebra"))));
    CHECK_EQ(toml_count(toml_get(root, STR("zebra"))), 0);
}

TEST(toml, knows_where_keys_and_values_stand)
{
    AUTO_ARENA(a, ARENA_MAX);
    const struct toml *root = parse(&a, "# \xc3\xa9\r\n"
                                        "'\xc3\xa9\xe2\x82\xac' = { b = 1, c.d = [ 2,\n"
                                        " \"\"\"\n\n\"\"\", 3 ] }\n"
                                        "[x . y]\n  [[ z ]]\n");
    const struct toml *first = toml_first(root);
    const struct toml *d = toml_get_path(first, STR("c.d"));
    const struct toml *last = toml_next(toml_next(toml_first(d)));

    CHECK(toml_key_pos(first).line == 2 && toml_key_pos(first).column == 1);
    CHECK(toml_pos(first).line == 2 && toml_pos(first).column == 8);
    CHECK(toml_key_pos(d).line == 2 && toml_key_pos(d).column == 19);
    CHECK(toml_pos(d).line == 2 && toml_pos(d).column == 23);
    CHECK(toml_pos(last).line == 5 && toml_pos(last).column == 6);
    CHECK_EQ(toml_pos(toml_get_path(root, STR("x.y"))).line, 6);
    CHECK_EQ(toml_pos(toml_get_path(root, STR("x.y"))).column, 6);
    CHECK_EQ(toml_pos(toml_first(toml_get(root, STR("z")))).column, 6);
}

TEST(toml, says_what_type_it_found_and_where)
{
    AUTO_ARENA(a, ARENA_MAX);
    const struct toml *root = parse(&a, "[server]\nport = 'http'\nmax = 70000\nratio = 2\n");
    const struct toml *port = toml_get_path(root, STR("server.port"));
    const struct toml *max = toml_get_path(root, STR("server.max"));
    struct toml_time t;
    struct err e = {0};
    int64_t i = -1;
    double d;
    bool b;

    CHECK_EQ(toml_to_i64(port, &i, &e), -EINVAL);
    CHECK_STR(e.msg, "t:2:8: expected an integer, found a string");
    CHECK_EQ(toml_to_i64_range(max, 1, 65535, &i, &e), -ERANGE);
    CHECK_STR(e.msg, "t:3:7: expected an integer from 1 to 65535, found 70000");
    CHECK_EQ(i, -1);
    CHECK_EQ(toml_to_i64_range(max, 1, 70000, &i, &e), 0);
    CHECK_EQ(toml_to_bool(root, &b, &e), -EINVAL);
    CHECK_STR(e.msg, "t:1:1: expected a boolean, found a table");
    CHECK_EQ(toml_to_time(max, &t, &e), -EINVAL);
    CHECK_STR(e.msg, "t:3:7: expected a date or time, found an integer");
    CHECK_EQ(toml_to_double(port, &d, &e), -EINVAL);
    CHECK_STR(e.msg, "t:2:8: expected a number, found a string");
    CHECK_EQ(toml_to_double(toml_get_path(root, STR("server.ratio")), &d, &e), 0);
    CHECK(d == 2.0);
    CHECK_EQ(toml_fail_key(port, &e, ENOENT, "unknown key '%s'", "port"), -ENOENT);
    CHECK_STR(e.msg, "t:2:1: unknown key 'port'");
}

static const struct bad {
    struct str text;
    const char *message;
} bad_documents[] = {
#define BAD(text, message)                                                                         \
    {                                                                                              \
        STR_INIT(text), message                                                                    \
    }
    BAD("a", "t:1:2: expected '=' after the key, found the end of the file"),
    BAD("a = 1 b = 2", "t:1:7: expected the end of the line, found 'b'"),
    BAD("a = \n", "t:1:5: expected a value, found the end of the line"),
    BAD("a = yes\n", "t:1:5: expected a value, found 'y'"),
    BAD("= 1", "t:1:1: expected a key, found '='"),
    BAD("a..b = 1", "t:1:3: expected a key, found '.'"),
    BAD("\xc3\xa9 = 1", "t:1:1: expected a key, found '\xc3\xa9'"),
    BAD("\n\n'\xc3\xa9' 1", "t:3:5: expected '=' after the key, found '1'"),
    BAD("\"\"\"a\"\"\" = 1", "t:1:1: expected a key, found a multi-line string"),
    BAD("a = 'x\nb'", "t:1:5: string is never closed, expected ' on the same line"),
    BAD("a = 1\nb = \"\"\"x\n\n", "t:2:5: multi-line string is never closed, expected \"\"\""),
    BAD("a = \"\\q\"", "t:1:7: expected an escape (one of b t n f r \" \\ u U), found 'q'"),
    BAD("a = \"\\u12g4\"", "t:1:10: expected 4 hexadecimal digits after \\u, found 'g'"),
    BAD("a = \"\xc3\xa9\\ud800\"", "t:1:7: escape U+D800 is not a Unicode character"),
    BAD("a = \"\"\"x \\ y\"\"\"",
        "t:1:10: expected only spaces after a backslash that ends a line"),
    BAD("a = 9223372036854775808", "t:1:5: the integer does not fit in 64 bits"),
    BAD("a = [1, -0b1]", "t:1:9: a number with 0x, 0o or 0b takes no sign"),
    BAD("a = 007", "t:1:5: a decimal number must not begin with 0"),
    BAD("a = 1__0", "t:1:7: expected a digit, found '_'"),
    BAD("a = 1_", "t:1:7: expected a digit, found the end of the file"),
    BAD("a = 0o8", "t:1:7: expected a digit, found '8'"),
    BAD("a = 1.e5", "t:1:7: expected a digit, found 'e'"),
    BAD("a = 1e400", "t:1:5: the float is too large"),
    BAD("a = 1.5x", "t:1:8: expected the end of the value, found 'x'"),
    BAD("a = 2021-02-29", "t:1:5: the month has no such day"),
    BAD("a = 2021-13-01", "t:1:10: expected a month from 01 to 12, found 13"),
    BAD("a = 24:00:00", "t:1:5: expected an hour from 00 to 23, found 24"),
    BAD("a = 12:30\n", "t:1:10: expected ':' (a time is HH:MM:SS), found the end of the line"),
    BAD("a = 2021-01-01T00:00:00+1:00", "t:1:26: expected an offset hour from 00 to 23, found ':'"),
    BAD("a = [1 2]", "t:1:8: expected ',' or ']' in the array, found '2'"),
    BAD("a = [\n1,\n# c\n", "t:4:1: expected a value, found the end of the file"),
    BAD("a = { b = 1, }", "t:1:14: expected a key, found '}'"),
    BAD("a = { b = 1\n}", "t:1:12: expected ',' or '}' in the inline table, found the end of the "
                          "line"),
    BAD("[a", "t:1:3: expected ']' or '.' after the key, found the end of the file"),
    BAD("[[a] ]", "t:1:5: expected ']]' to end the header, found ' '"),
    BAD("[a]\tb", "t:1:5: expected the end of the line, found 'b'"),
    BAD("a = 1\na = 2", "t:2:1: key 'a' is already defined at line 1"),
    BAD("[a]\n[b]\n[a]", "t:3:2: key 'a' is already defined at line 1"),
    BAD("[[a]]\n[a]", "t:2:2: key 'a' is already defined at line 1"),
    BAD("[a]\n[[a]]", "t:2:3: key 'a' is already defined at line 1"),
    BAD("a = []\n[[a]]", "t:2:3: key 'a' is already defined at line 1"),
    BAD("a.b = 1\n[a]", "t:2:2: key 'a' is already defined at line 1"),
    BAD("[a.b.c]\n[a]\nb.d = 1\nb.e = 2\n[a.b]", "t:5:4: key 'b' is already defined at line 3"),
    BAD("a = { b = 1 }\n[a.c]", "t:2:2: cannot add to 'a', an inline table from line 1"),
    BAD("a = { b = 1 }\na.c = 2", "t:2:1: cannot add to 'a', an inline table from line 1"),
    BAD("a = [{}]\n[a.c]", "t:2:2: cannot add to 'a', an array from line 1"),
    BAD("[a.b]\n[a]\nb.c = 1", "t:3:1: cannot add to 'b', a table with its own header from line 1"),
    BAD("a = 1\na.b = 2", "t:2:1: cannot add to 'a', an integer from line 1"),
    BAD("a = { \"\\u0007\" = 1, \"\\u0007\".b = 2 }",
        "t:1:21: cannot add to '?', an integer from line 1"),
    BAD("a = 1\nb = \"\x01\"", "t:2:6: control character U+0001 is not allowed"),
    BAD("# \x7f", "t:1:3: control character U+007F is not allowed"),
    BAD("a = 'x\0'", "t:1:7: control character U+0000 is not allowed"),
    BAD("a = 1\rb = 2", "t:1:6: expected a line feed after carriage return"),
    BAD("# \xc3\xa9 \xff", "t:1:5: not valid UTF-8 (byte 0xff)"),
    BAD("a = '\xed\xa0\x80'", "t:1:6: not valid UTF-8 (byte 0xed)"),
    BAD("a = '\xc0\xaf'", "t:1:6: not valid UTF-8 (byte 0xc0)"),
    BAD("a = '\xf0\x9f\x98", "t:1:6: not valid UTF-8 (byte 0xf0)"),
};

TEST(toml, points_at_the_character_it_refuses)
{
    for (size_t i = 0; i < ARRAY_LEN(bad_documents); i++) {
        AUTO_ARENA(a, ARENA_MAX);
        struct toml *root = NULL;
        struct err e = {0};

        CHECK_EQ(toml_parse(&a, bad_documents[i].text, "t", &root, &e), -EINVAL);
        CHECK_STR(e.msg, bad_documents[i].message);
        CHECK_EQ(e.code, EINVAL);
        CHECK(!root);
        CHECK_EQ(toml_parse(&a, bad_documents[i].text, "t", &root, NULL), -EINVAL);
    }
}

TEST(toml, gives_the_place_of_an_error_as_data)
{
    for (size_t i = 0; i < ARRAY_LEN(bad_documents); i++) {
        AUTO_ARENA(a, ARENA_MAX);
        struct toml *root = NULL;
        struct toml_pos at;
        struct err e = {0};
        char whole[sizeof(e.msg) + 32];

        CHECK_EQ(toml_parse_at(&a, bad_documents[i].text, "t", &root, &at, &e), -EINVAL);
        (void)snprintf(whole, sizeof(whole), "t:%u:%u: %s", at.line, at.column, e.msg);
        CHECK_STR(whole, bad_documents[i].message);
    }
}

/* The middle between `count` copies of what stands before and after it. */
static int parse_nested(const char *before, const char *middle, const char *after, int count)
{
    AUTO_ARENA(a, ARENA_MAX);
    AUTO_BUF(text, 1024 * 1024);
    struct toml *root;

    CHECK_EQ(buf_add(&text, STR("k = ")), 0);
    for (int i = 0; i < count; i++)
        CHECK_EQ(buf_add(&text, str_of(before)), 0);
    CHECK_EQ(buf_add(&text, str_of(middle)), 0);
    for (int i = 0; i < count; i++)
        CHECK_EQ(buf_add(&text, str_of(after)), 0);
    return toml_parse(&a, buf_str(&text), "t", &root, NULL);
}

TEST(toml, refuses_what_is_nested_too_deeply)
{
    AUTO_ARENA(a, ARENA_MAX);
    AUTO_BUF(dotted, 1024 * 1024);
    struct toml *root;

    CHECK_EQ(parse_nested("[", "", "]", TOML_DEPTH_MAX), 0);
    CHECK_EQ(parse_nested("[", "", "]", TOML_DEPTH_MAX + 1), -E2BIG);
    CHECK_EQ(parse_nested("[", "", "", 100 * 1000), -E2BIG);
    CHECK_EQ(parse_nested("{a=", "1", "}", TOML_DEPTH_MAX - 1), 0);
    CHECK_EQ(parse_nested("{a=", "1", "}", TOML_DEPTH_MAX), -E2BIG);
    for (int i = 0; i < TOML_DEPTH_MAX; i++)
        CHECK_EQ(buf_add(&dotted, STR("a.")), 0);
    CHECK_EQ(buf_add(&dotted, STR("a = 1")), 0);
    CHECK_EQ(toml_parse(&a, buf_str(&dotted), "t", &root, NULL), -E2BIG);
    CHECK_EQ(toml_parse(&a, str_skip(buf_str(&dotted), 2), "t", &root, NULL), 0);
}

TEST(toml, refuses_a_document_that_is_too_long_or_has_too_many_values)
{
    AUTO_ARENA(a, ARENA_MAX);
    AUTO_BUF(text, TOML_TEXT_BYTES_MAX + 16);
    struct toml *root;
    struct err e = {0};

    while (text.n < TOML_TEXT_BYTES_MAX)
        CHECK_EQ(buf_add(&text, STR("########\n#######")), 0);
    CHECK_EQ(toml_parse(&a, buf_str(&text), "t", &root, &e), 0);
    CHECK_EQ(buf_add_char(&text, '\n'), 0);
    CHECK_EQ(toml_parse(&a, buf_str(&text), "t", &root, &e), -E2BIG);
    CHECK_STR(e.msg, "t: longer than 4194304 bytes");
    buf_clear(&text);
    CHECK_EQ(buf_add(&text, STR("a=[")), 0);
    for (int i = 0; i < TOML_VALUES_MAX - 1; i++)
        CHECK_EQ(buf_add(&text, STR("1,")), 0);
    CHECK_EQ(toml_parse(&a, buf_str(&text), "t", &root, &e), -E2BIG);
    CHECK_STR(e.msg, "t:1:400000: the document has too many values");
}

/* Parses "a = " and the parts, with `digits` zeros behind `head`. */
static int parse_number(const char *head, int digits, const char *tail, struct err *e)
{
    AUTO_ARENA(a, ARENA_MAX);
    AUTO_BUF(text, 64 * 1024);
    struct toml *root;

    CHECK_EQ(buf_addf(&text, "a = %s%0*d%s", head, digits, 0, tail), 0);
    return toml_parse(&a, buf_str(&text), "t", &root, e);
}

TEST(toml, refuses_a_number_of_too_many_digits)
{
    struct err e = {0};

    CHECK_EQ(parse_number("0.", TOML_NUMBER_DIGITS_MAX - 2, "", &e), 0);
    CHECK_EQ(parse_number("0.", TOML_NUMBER_DIGITS_MAX, "", &e), -E2BIG);
    CHECK_STR(e.msg, "t:1:5: the number has too many digits");
    CHECK_EQ(parse_number("1", TOML_NUMBER_DIGITS_MAX - 8, ".5", &e), -EINVAL);
    CHECK_STR(e.msg, "t:1:5: the float is too large");
    for (int digits = TOML_NUMBER_DIGITS_MAX - 1; digits < TOML_NUMBER_DIGITS_MAX + 4; digits++) {
        CHECK_EQ(parse_number("1", digits, ".50e+100000000", &e), -E2BIG);
        CHECK_EQ(parse_number("1.", digits, "e-100000000", &e), -E2BIG);
        CHECK_EQ(parse_number("1e-", digits, "00000000", &e), -E2BIG);
        CHECK_EQ(parse_number("0b1", digits, "00000000", &e), -E2BIG);
    }
}

TEST(toml, answers_when_memory_is_out)
{
    struct str text = STR("a = 'x'\nb = \"\\n\"\n[c]\nd = [1, 2.5, 12:00:00]\n[[e.f]]\n");
    struct toml *root;
    struct err e = {0};
    AUTO_ARENA(small, 256);

    CHECK_EQ(toml_parse(&small, text, "t", &root, &e), -ENOMEM);
    CHECK(str_starts(str_of(e.msg), STR("t:1: the document needs too much memory")));
    for (long nth = 1;; nth++) {
        AUTO_ARENA(a, ARENA_MAX);
        int r;

        fault_arm(FAULT_ALLOC, nth);
        r = toml_parse(&a, text, "t", &root, NULL);
        if (fault_countdown[FAULT_ALLOC] > 0) {
            CHECK_EQ(r, 0);
            CHECK(nth > 2);
            break;
        }
        CHECK_EQ(r, -ENOMEM);
    }
    fault_arm(FAULT_ALLOC, 0);
}

static double seconds_to_parse(struct str text)
{
    AUTO_ARENA(a, (size_t)ARENA_MAX);
    struct timespec t0, t1;
    struct toml *root = NULL;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
    CHECK_EQ(toml_parse(&a, text, "t", &root, NULL), 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
    for (const struct toml *c = toml_first(root); c; c = toml_next(c))
        CHECK(toml_get(root, toml_key(c)) == c);
    return (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
}

/* Quadratic work on any of these would take minutes. */
TEST(toml, stays_fast_on_documents_made_to_be_slow)
{
    static const struct {
        const char *before, *after; /* a number */
    } shapes[] = {
        {"k",       " = 1\n"        },
        {"[k",      "]\n"           },
        {"a.b.c.k", " = 1\n"        },
        {"[a.k",    ".b]\n"         },
        {"'",       "' = [[], {}]\n"},
    };
    AUTO_BUF(text, TOML_TEXT_BYTES_MAX);

    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        buf_clear(&text);
        for (int k = 0; k < 45 * 1000; k++)
            CHECK_EQ(buf_addf(&text, "%s%d%s", shapes[i].before, k, shapes[i].after), 0);
        CHECK(seconds_to_parse(buf_str(&text)) < 5);
    }
    buf_clear(&text); /* keys that are prefixes of one another, values all on one line */
    CHECK_EQ(buf_add(&text, STR("a = {")), 0);
    for (int n = 1; n < 2000; n++)
        CHECK_EQ(buf_addf(&text, "%s%0*d = 1", n > 1 ? ", " : "", n, 0), 0);
    CHECK_EQ(buf_add(&text, STR("}")), 0);
    CHECK(seconds_to_parse(buf_str(&text)) < 5);
}
