#include "execd/core/duration.h"

#include "test.h"

TEST(duration, reads_what_go_reads)
{
    static const struct {
        const char *text;
        int64_t ns;
    } rows[] = {
        {"0",        0            },
        {"0s",       0            },
        {"1s",       1000000000   },
        {"300ms",    300000000    },
        {"1.5h",     5400000000000},
        {"1h2m3.5s", 3723500000000},
        {"-2m",      -120000000000},
        {"+1us",     1000         },
        {"1µs",     1000         },
        {"1μs",     1000         },
        {".5s",      500000000    },
        {"1.s",      1000000000   },
        {"7ns",      7            },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ns = -1;

        CHECK_EQ(duration_parse(str_of(rows[i].text), &ns), 0);
        CHECK_EQ(ns, rows[i].ns);
    }
}

TEST(duration, refuses_the_rest)
{
    static const char *const rows[] = {"",    "1",   "-",   "s",    ".s",   "1x",
                                       "1 s", "1s ", "1s2", "1e3s", "--1s", "0x1s"};
    int64_t ns;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_EQ(duration_parse(str_of(rows[i]), &ns), -EINVAL);
    CHECK_EQ(duration_parse(STR("9223372037s"), &ns), -ERANGE);
    CHECK_EQ(duration_parse(STR("2562047h2562047h"), &ns), -ERANGE);
}

TEST(duration, is_spelled_as_it_is_read)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } rows[] = {
        {0,          "0s"                      },
        {1,          "1ms"                     },
        {999,        "999ms"                   },
        {1000,       "1s"                      },
        {1500,       "1.5s"                    },
        {2025,       "2.025s"                  },
        {60000,      "1m0s"                    },
        {61250,      "1m1.25s"                 },
        {3600000,    "1h0m0s"                  },
        {86400001,   "24h0m0.001s"             },
        {UINT64_MAX, "5124095576030h25m51.615s"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_STR(duration_text_of_ms(rows[i].ms).s, rows[i].text);
}
