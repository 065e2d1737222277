#include "config_fixture.h"

TEST(config_text, knows_forms)
{
    static const struct {
        enum config_form form;
        const char *text;
        bool fits;
    } cases[] = {
        {FORM_SOME,     "",             false},
        {FORM_ANY,      "",             true },
        {FORM_ABSOLUTE, "/a",           true },
        {FORM_ABSOLUTE, "a",            false},
        {FORM_HOST,     "::",           true },
        {FORM_HOST,     "a b",          false},
        {FORM_HOST,     "*",            false},
        {FORM_ADDRESS,  "*.x.org",      true },
        {FORM_ADDRESS,  "https://x",    false},
        {FORM_LEVEL,    "Critical",     true },
        {FORM_LEVEL,    "no",           false},
        {FORM_IPV4,     "1.2.3.4",      true },
        {FORM_IPV4,     "1.2.3",        false},
        {FORM_IPV4,     "::1",          false},
        {FORM_ACCOUNT,  "www-data",     true },
        {FORM_ACCOUNT,  "-x",           false},
        {FORM_ACCOUNT,  "a:b",          false},
        {FORM_SIZE,     "10Gi",         true },
        {FORM_SIZE,     "big",          false},
        {FORM_PROVIDER, "batchsandbox", true },
        {FORM_PROVIDER, "sandbox",      false},
        {FORM_KEY_ID,   "z",            true },
        {FORM_KEY_ID,   "zz",           false},
        {FORM_KEY_ID,   "Z",            false},
        {FORM_KEY,      "a b",          true },
        {FORM_KEY,      " ",            true },
        {FORM_KEY,      "a ",           false},
        {FORM_KEY,      "a\x80",        false},
        {FORM_KEY,      "a\tb",         false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (config_form_fits(cases[i].form, str_of(cases[i].text)) != cases[i].fits)
            test_fail(__FILE__, __LINE__, "\"%s\"", cases[i].text);
}

TEST(config_text, reads_no_limit_as_zero)
{
    uint64_t bytes = 7;
    uint32_t cpu = 7;

    CHECK_EQ(config_bytes_parse(STR("0"), &bytes), 0);
    CHECK_EQ(bytes, 0);
    CHECK_EQ(config_cpu_parse(STR(""), &cpu), 0);
    CHECK_EQ(cpu, 0);
    CHECK_EQ(config_cpu_parse(STR("1.5"), &cpu), 0);
    CHECK_EQ(cpu, 1500);
    CHECK_EQ(config_cpu_parse(STR("1025"), &cpu), -ERANGE);
    CHECK_EQ(config_bytes_parse(STR("1025Ti"), &bytes), -ERANGE);
    CHECK_EQ(config_bytes_parse(STR("1024Ti"), &bytes), 0);
}

TEST(config_text, measures_distance_in_edits)
{
    static const struct {
        const char *a, *b;
        unsigned distance;
    } cases[] = {
        {"",        "",        0},
        {"",        "abc",     3},
        {"port",    "port",    0},
        {"prot",    "port",    1},
        {"wrokers", "workers", 1},
        {"wrokers", "broker",  2},
        {"ab",      "ba",      1},
        {"ca",      "abc",     3},
        {"pot",     "port",    1},
        {"ports",   "port",    1},
        {"kitten",  "sitting", 3},
    };
    char far[100];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_EQ(config_distance(str_of(cases[i].a), str_of(cases[i].b)), cases[i].distance);
        CHECK_EQ(config_distance(str_of(cases[i].b), str_of(cases[i].a)), cases[i].distance);
    }
    memset(far, 'x', sizeof(far));
    CHECK_EQ(config_distance(str_make(far, sizeof(far)), STR("x")), 64);
}
