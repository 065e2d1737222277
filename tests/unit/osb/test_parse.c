#include "osb/command.h"

#include <errno.h>

#include "test.h"

enum { ARENA_MAX = 4 * 1024 * 1024, WORDS_MAX = 16 };

/* Parses the words behind "osb"; the result is freed with the arena. */
static int parse(struct arena *a, struct parsed *ret, struct err *e, const char *const *words)
{
    const char *argv[WORDS_MAX] = {"osb"};
    int n = 1;

    for (; words[n - 1]; n++)
        argv[n] = words[n - 1];
    return command_parse(a, n, argv, ret, e);
}

#define PARSE(...)                                                                                 \
    AUTO_ARENA(a, ARENA_MAX);                                                                      \
    struct parsed p;                                                                               \
    struct err e = {0};                                                                            \
    int r = parse(&a, &p, &e, (const char *const[]){__VA_ARGS__, NULL})

TEST(parse, reads_durations)
{
    static const struct {
        const char *text;
        int64_t seconds; /* -1 = refused */
    } rows[] = {
        {"90",           90  },
        {"90s",          90  },
        {"10m",          600 },
        {"1h30m",        5400},
        {"1h30m45s",     5445},
        {" 2h ",         7200},
        {"0",            0   },
        {"",             -1  },
        {"m",            -1  },
        {"1x",           -1  },
        {"1m1h",         -1  },
        {"-5s",          -1  },
        {"1.5h",         -1  },
        {"h30m",         -1  },
        {"99999999999h", -1  }
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t seconds = -1;
        int r = duration_parse(str_of(rows[i].text), &seconds);

        CHECK_EQ(r, rows[i].seconds < 0 ? -EINVAL : 0);
        CHECK_EQ(seconds, rows[i].seconds);
    }
}

TEST(parse, reads_modes_as_octal_digits)
{
    unsigned mode = 1;

    CHECK_EQ(mode_parse(STR("644"), &mode), 0);
    CHECK_EQ(mode, 0644);
    CHECK_EQ(mode_parse(STR("0755"), &mode), 0);
    CHECK_EQ(mode, 0755);
    CHECK_EQ(mode_parse(STR("0o755"), &mode), -EINVAL);
    CHECK_EQ(mode_parse(STR("888"), &mode), -EINVAL);
    CHECK_EQ(mode_parse(STR("17777"), &mode), -EINVAL);
    CHECK_EQ(mode_parse(STR(""), &mode), -EINVAL);
}

TEST(parse, finds_a_command_its_options_and_its_arguments)
{
    PARSE("--domain", "x:1", "command", "run", "ID", "-w", "/tmp", "--timeout=5m", "--", "ls",
          "-l");

    CHECK_EQ(r, 0);
    CHECK_STR(p.command->path, "command run");
    CHECK_STR(parsed_value(&p, "domain")->text, "x:1");
    CHECK_STR(parsed_value(&p, "workdir")->text, "/tmp");
    CHECK_EQ(parsed_value(&p, "timeout")->number, 300);
    CHECK_EQ(p.argument_count, 3);
    CHECK_STR(p.arguments[2], "-l");
}

TEST(parse, ends_options_at_the_command_of_exec)
{
    PARSE("exec", "-it", "-e", "A=1", "ID", "ls", "-l", "--", "x");

    CHECK_EQ(r, 0);
    CHECK(parsed_value(&p, "tty") && parsed_value(&p, "interactive"));
    CHECK_EQ(p.argument_count, 5);
    CHECK_STR(p.arguments[2], "-l");
    CHECK_STR(p.arguments[3], "--");
}

TEST(parse, takes_a_value_that_sticks_to_its_letter)
{
    PARSE("sandbox", "renew", "ID", "-t90s");

    CHECK_EQ(r, 0);
    CHECK_EQ(parsed_value(&p, "timeout")->number, 90);
}

TEST(parse, negates_a_flag)
{
    PARSE("--use-server-proxy", "--no-use-server-proxy", "sandbox", "list");

    CHECK_EQ(r, 0);
    CHECK(parsed_value(&p, "use-server-proxy")->negated);
}

TEST(parse, shows_the_help_of_a_group)
{
    PARSE("command", "session");

    CHECK_EQ(r, 0);
    CHECK(!p.command);
    CHECK_STR(p.group->path, "command session");
}

TEST(parse, refuses_wrong_lines_and_says_why)
{
    static const struct {
        const char *words[5], *message;
    } rows[] = {
        {{"nonsense"},                           "No such command 'nonsense'."                                    },
        {{"sandbox", "nonsense"},                "No such command 'nonsense'."                                    },
        {{"sandbox", "list", "--nonsense"},      "No such option: --nonsense"                                     },
        {{"sandbox", "list", "-Z"},              "No such option: -Z"                                             },
        {{"sandbox", "get"},                     "Missing argument 'ID'."                                         },
        {{"sandbox", "get", "a", "b"},           "Got unexpected extra argument (b)"                              },
        {{"sandbox", "renew", "a"},              "Missing option '--timeout'."                                    },
        {{"sandbox", "renew", "a", "-t"},        "Option '--timeout' requires an argument."                       },
        {{"sandbox", "health", "a", "--help=x"}, "Option '--help' does not take a value."                         },
        {{"sandbox", "list", "-m", "x"},
         "Invalid value for '--metadata': expected KEY=VALUE, got 'x'."                                           },
        {{"sandbox", "list", "--page", "0"},
         "Invalid value for '--page': 0 is not in the range 1 to 2147483647."                                     },
        {{"--protocol", "ftp"},                  "Invalid value for '--protocol': 'ftp' is not one of http|https."},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_ARENA(a, ARENA_MAX);
        struct parsed p;
        struct err e = {0};

        CHECK_EQ(parse(&a, &p, &e, rows[i].words), -EINVAL);
        CHECK_STR(e.msg, rows[i].message);
    }
}

TEST(parse, bounds_the_options_of_one_word)
{
    char many[300];
    memset(many, 'q', sizeof(many) - 1);
    many[0] = '-';
    many[sizeof(many) - 1] = '\0';
    PARSE("sandbox", "create", many);

    CHECK_EQ(r, -E2BIG);
}
