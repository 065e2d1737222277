#include "base/time.h"

#include <limits.h>
#include <poll.h>

#include "test.h"

static const char *format(int64_t us)
{
    static char text[TIME_TEXT_MAX];

    CHECK_EQ(time_format(us, text), strlen(text));
    return text;
}

/* What `text` parses to, printed again; or the failure as a word. */
static const char *reparse(int (*parse)(struct str, int64_t *, struct err *), const char *text)
{
    int64_t us = 4711;
    struct err e = {0};
    int r = parse(str_of(text), &us, &e);

    if (r == 0)
        return format(us);
    CHECK_EQ(us, 4711); /* written only on success */
    CHECK_EQ(e.code, -r);
    CHECK(e.msg[0]);
    return r == -EINVAL ? "invalid" : r == -ERANGE ? "range" : "?";
}

TEST(time, prints_utc_with_six_digits_or_none)
{
    CHECK_STR(format(0), "1970-01-01T00:00:00Z");
    CHECK_STR(format(INT64_C(1767323045000000)), "2026-01-02T03:04:05Z");
    CHECK_STR(format(INT64_C(1767323045000120)), "2026-01-02T03:04:05.000120Z");
    CHECK_STR(format(-1), "1969-12-31T23:59:59.999999Z");
    CHECK_STR(format(TIME_MIN_US), "0001-01-01T00:00:00Z");
    CHECK_STR(format(TIME_MAX_US), "9999-12-31T23:59:59.999999Z");
    CHECK_STR(format(INT64_MIN), "0001-01-01T00:00:00Z");
    CHECK_STR(format(INT64_MAX), "9999-12-31T23:59:59.999999Z");
}

TEST(time, prints_utc_with_three_digits)
{
    char text[TIME_TEXT_MAX];

    CHECK_EQ(time_format_ms(INT64_C(1767323045000120), text), strlen(text));
    CHECK_STR(text, "2026-01-02T03:04:05.000Z");
    (void)time_format_ms(-1, text);
    CHECK_STR(text, "1969-12-31T23:59:59.999Z");
}

TEST(time, parses_strict_rfc3339)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"2026-01-02T03:04:05Z",            "2026-01-02T03:04:05Z"       },
        {"2026-01-02t03:04:05z",            "2026-01-02T03:04:05Z"       },
        {"2026-01-02T03:04:05.5Z",          "2026-01-02T03:04:05.500000Z"},
        {"2026-01-02T03:04:05.1234567891Z", "2026-01-02T03:04:05.123456Z"},
        {"2026-01-02T03:04:05.9999999Z",    "2026-01-02T03:04:05.999999Z"},
        {"2026-01-02T03:04:05+05:30",       "2026-01-01T21:34:05Z"       },
        {"2026-01-02T03:04:05-23:59",       "2026-01-03T03:03:05Z"       },
        {"2026-01-02T03:04:05-00:00",       "2026-01-02T03:04:05Z"       },
        {"2024-02-29T00:00:00Z",            "2024-02-29T00:00:00Z"       },
        {"2000-02-29T00:00:00Z",            "2000-02-29T00:00:00Z"       },
        {"1900-02-29T00:00:00Z",            "range"                      },
        {"2025-02-29T00:00:00Z",            "range"                      },
        {"2025-04-31T00:00:00Z",            "range"                      },
        {"2025-00-01T00:00:00Z",            "range"                      },
        {"2025-13-01T00:00:00Z",            "range"                      },
        {"2025-01-00T00:00:00Z",            "range"                      },
        {"0000-01-01T00:00:00Z",            "range"                      },
        {"2025-01-01T24:00:00Z",            "range"                      },
        {"2025-01-01T00:60:00Z",            "range"                      },
        {"2025-01-01T00:00:61Z",            "range"                      },
        {"0001-01-01T00:00:00+00:01",       "range"                      },
        {"0001-01-01T00:00:00-00:01",       "0001-01-01T00:01:00Z"       },
        {"9999-12-31T23:59:59-00:01",       "range"                      },
        {"2025-01-01T00:00:00+24:00",       "invalid"                    },
        {"2025-01-01T00:00:00+00:60",       "invalid"                    },
        {"2025-01-01T00:00:00+0100",        "invalid"                    },
        {"2025-01-01T00:00:00",             "invalid"                    },
        {"2025-01-01 00:00:00Z",            "invalid"                    },
        {"2025-01-01T00:00Z",               "invalid"                    },
        {"2025-01-01",                      "invalid"                    },
        {"1767323045",                      "invalid"                    },
        {"2025-01-01T00:00:00.Z",           "invalid"                    },
        {"2025-01-01T00:00:00,5Z",          "invalid"                    },
        {"2025-01-01T00:00:00Z ",           "invalid"                    },
        {" 2025-01-01T00:00:00Z",           "invalid"                    },
        {"2025-1-01T00:00:00Z",             "invalid"                    },
        {"+025-01-01T00:00:00Z",            "invalid"                    },
        {"12025-01-01T00:00:00Z",           "invalid"                    },
        {"",                                "invalid"                    },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_STR(reparse(time_parse, rows[i].text), rows[i].want);
}

TEST(time, takes_a_leap_second_only_at_the_end_of_a_utc_day)
{
    CHECK_STR(reparse(time_parse, "2016-12-31T23:59:60Z"), "2017-01-01T00:00:00Z");
    CHECK_STR(reparse(time_parse, "1990-12-31T15:59:60-08:00"), "1991-01-01T00:00:00Z");
    CHECK_STR(reparse(time_parse, "2017-01-01T08:59:60.5+09:00"), "2017-01-01T00:00:00.500000Z");
    CHECK_STR(reparse(time_parse, "2016-12-31T23:58:60Z"), "range");
    CHECK_STR(reparse(time_parse, "2016-12-31T23:59:60+01:00"), "range");
    CHECK_STR(reparse(time_parse, "9999-12-31T23:59:60Z"), "range");
}

TEST(time, parses_leniently_what_clients_send)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"2026-01-02T03:04:05.5+01:00", "2026-01-02T02:04:05.500000Z"},
        {"2026-01-02 03:04:05Z",        "2026-01-02T03:04:05Z"       },
        {"2026-01-02 03:04",            "2026-01-02T03:04:00Z"       },
        {"2026-01-02T03:04+01:00",      "2026-01-02T02:04:00Z"       },
        {"2026-01-02T03:04:05+0130",    "2026-01-02T01:34:05Z"       },
        {"2026-01-02T03:04:05",         "2026-01-02T03:04:05Z"       },
        {"2026-01-02T03:04:05.25",      "2026-01-02T03:04:05.250000Z"},
        {"2026-01-02",                  "2026-01-02T00:00:00Z"       },
        {"1767323045",                  "2026-01-02T03:04:05Z"       },
        {"1767323045.25",               "2026-01-02T03:04:05.250000Z"},
        {"1767323045123",               "2026-01-02T03:04:05.123000Z"},
        {"1767323045123.5",             "2026-01-02T03:04:05.123500Z"},
        {"20000000000",                 "2603-10-11T11:33:20Z"       },
        {"20000000001",                 "1970-08-20T11:33:20.001000Z"},
        {"0",                           "1970-01-01T00:00:00Z"       },
        {"-1",                          "1969-12-31T23:59:59Z"       },
        {"-0.5",                        "1969-12-31T23:59:59.500000Z"},
        {"253402300799999",             "9999-12-31T23:59:59.999000Z"},
        {"253402300800000",             "range"                      },
        {"99999999999999999999999",     "range"                      },
        {"-9223372036854775808",        "range"                      },
        {"2026-01-32",                  "range"                      },
        {"2026-01-02T",                 "invalid"                    },
        {"2026-01-02  03:04",           "invalid"                    },
        {"2026-01-02T03",               "invalid"                    },
        {"2026-01-02T03:04.5",          "invalid"                    },
        {"2026-01-02Z",                 "invalid"                    },
        {"2026-01-02T03:04:05+",        "invalid"                    },
        {"2026-01-02T03:04:05-01",      "invalid"                    },
        {"2026-01-02T03:04:05+01:",     "invalid"                    },
        {"2026-01-02T03:04:05+24:00",   "invalid"                    },
        {"2026-01-02T03:04:05+01:60",   "invalid"                    },
        {"1.",                          "invalid"                    },
        {".5",                          "invalid"                    },
        {"1.5.",                        "invalid"                    },
        {"1e9",                         "invalid"                    },
        {"+1",                          "invalid"                    },
        {"--1",                         "invalid"                    },
        {"-",                           "invalid"                    },
        {"",                            "invalid"                    },
    };
    int64_t us;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_STR(reparse(time_parse_lenient, rows[i].text), rows[i].want);
    CHECK_EQ(time_parse_lenient(STR_NONE, &us, NULL), -EINVAL);
}

TEST(time, round_trips_every_day_of_four_centuries)
{
    const int64_t day = INT64_C(86400) * TIME_US_PER_S;
    int64_t from = INT64_C(-11676096000000000); /* 1600-01-01 */

    for (int i = 0; i < 146097 + 1; i++) {
        int64_t us = from + i * day, back;
        const char *text = format(us);

        CHECK_EQ(time_parse(str_of(text), &back, NULL), 0);
        CHECK_EQ(back, us);
    }
    CHECK_STR(format(from), "1600-01-01T00:00:00Z");
    CHECK_STR(format(from + 146097 * day), "2000-01-01T00:00:00Z");
}

TEST(time, prints_http_dates)
{
    char text[TIME_HTTP_MAX];

    CHECK_EQ(time_format_http(INT64_C(784111777123456), text), 29);
    CHECK_STR(text, "Sun, 06 Nov 1994 08:49:37 GMT");
    time_format_http(0, text);
    CHECK_STR(text, "Thu, 01 Jan 1970 00:00:00 GMT");
    time_format_http(TIME_MIN_US, text);
    CHECK_STR(text, "Mon, 01 Jan 0001 00:00:00 GMT");
}

TEST(time, parses_the_three_forms_of_an_http_date)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT",    "1994-11-06T08:49:37Z"},
        {"Sunday, 06-Nov-94 08:49:37 GMT",   "1994-11-06T08:49:37Z"},
        {"Sun Nov  6 08:49:37 1994",         "1994-11-06T08:49:37Z"},
        {"Wed Nov 16 08:49:37 1994",         "1994-11-16T08:49:37Z"},
        {"Thursday, 01-Jan-70 00:00:00 GMT", "2070-01-01T00:00:00Z"},
        {"Sat, 31 Dec 2016 23:59:60 GMT",    "2017-01-01T00:00:00Z"},
        {"Sun, 31 Feb 1994 08:49:37 GMT",    "range"               },
        {"Sun, 06 nov 1994 08:49:37 GMT",    "invalid"             },
        {"Sun, 6 Nov 1994 08:49:37 GMT",     "invalid"             },
        {"Sun, 06 Nov 1994 08:49:37 UTC",    "invalid"             },
        {"Sun, 06 Nov 1994 08:49:37 GMT ",   "invalid"             },
        {"Xyz, 06 Nov 1994 08:49:37 GMT",    "invalid"             },
        {"Sun Nov 06 08:49:37",              "invalid"             },
        {"",                                 "invalid"             },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_STR(reparse(time_parse_http, rows[i].text), rows[i].want);
}

TEST(time, rounds_what_is_left_up_and_clamps_it)
{
    int left = deadline_left_ms(deadline_in_ms(60000));

    CHECK(left > 0 && left <= 60000);
    CHECK_EQ(deadline_left_ms(0), 0);
    CHECK_EQ(deadline_left_ms(time_mono_ns()), 0);
    CHECK_EQ(deadline_left_ms(DEADLINE_NEVER), -1);
    CHECK_EQ(deadline_left_ms(DEADLINE_NEVER - 1), INT_MAX);
    CHECK(deadline_in_ms(UINT64_MAX) == DEADLINE_NEVER);
    CHECK(deadline_in_ms(UINT64_MAX / 1000000) == DEADLINE_NEVER);
    CHECK(deadline_passed(deadline_in_ms(0)));
    CHECK(!deadline_passed(DEADLINE_NEVER));
}

TEST(time, has_passed_its_deadline_after_waiting_for_what_is_left)
{
    for (int i = 0; i < 20; i++) {
        uint64_t deadline = time_mono_ns() + 1300000;

        CHECK_EQ(poll(NULL, 0, deadline_left_ms(deadline)), 0);
        CHECK(deadline_passed(deadline));
        CHECK_EQ(deadline_left_ms(deadline), 0);
    }
}

TEST(time, clocks_run)
{
    uint64_t a = time_mono_ns(), b = time_mono_ns();

    CHECK(a > 0 && b >= a);
    CHECK(time_mono_ms() >= a / 1000000);
    CHECK(time_wall_us() > INT64_C(1700000000000000)); /* later than 2023 */
}
