#include "execd/options.h"

#include "test.h"

TEST(options, reads_a_full_line)
{
    static const char *const argv[] = {
        "execd",
        "--init",
        "--uid",
        "1000",
        "--gid",
        "0",
        "--cwd",
        "/srv",
        "--work-fds",
        "3",
        "--grace-ms",
        "250",
        "--stat-fds",
        "3",
        "--cpu-millis",
        "500",
        "--memory-mib",
        "512",
        "--access-token",
        "t",
        "--",
        "sh",
        "-c",
        "--init",
        NULL,
    };
    struct execd_options o;

    CHECK_EQ(execd_options_parse(argv, &o, NULL), 0);
    CHECK_EQ(o.mode, EXECD_INIT);
    CHECK_EQ(o.uid, 1000);
    CHECK_EQ(o.gid, 0);
    CHECK_STR(o.cwd, "/srv");
    CHECK_EQ(o.work_fds, 3);
    CHECK_EQ(o.grace_ms, 250);
    CHECK_EQ(o.stat_fds, 3);
    CHECK_EQ(o.cpu_millis, 500);
    CHECK_EQ(o.memory_mib, 512);
    CHECK_STR(o.access_token, "t");
    CHECK_STR(o.entry_argv[0], "sh");
    CHECK_STR(o.entry_argv[2], "--init");
    CHECK(!o.entry_argv[3]);
}

TEST(options, has_defaults)
{
    static const char *const argv[] = {"execd", "--listen", "unix:/x", "--", "true", NULL};
    struct execd_options o;

    CHECK_EQ(execd_options_parse(argv, &o, NULL), 0);
    CHECK_EQ(o.mode, EXECD_LISTEN);
    CHECK_STR(o.listen, "unix:/x");
    CHECK_EQ(o.uid, EXECD_KEEP_ID);
    CHECK_EQ(o.gid, EXECD_KEEP_ID);
    CHECK_EQ(o.grace_ms, EXECD_GRACE_MS);
    CHECK_EQ(o.work_fds, 0);
    CHECK(!o.cwd && !o.log_file && !o.exit_file);
}

TEST(options, says_what_is_wrong)
{
    static const struct {
        const char *args[6];
        const char *message;
    } cases[] = {
        {{NULL},                                   "one of --init, --listen, --print-routes, --version and --help is needed"},
        {{"--nope"},                               "unknown option '--nope'"                                                },
        {{"word"},                                 "unknown option 'word'"                                                  },
        {{"--init"},                               "no program behind '--'"                                                 },
        {{"--init", "--"},                         "no program behind '--'"                                                 },
        {{"--init", "--listen", "unix:/x"},        "--listen: the mode was chosen already"                                  },
        {{"--version", "--help"},                  "--help: the mode was chosen already"                                    },
        {{"--print-routes", "--", "sh"},           "a program goes with --init or --listen"                                 },
        {{"--help", "--", "sh"},                   "a program goes with --init or --listen"                                 },
        {{"--init", "--uid"},                      "--uid needs a value"                                                    },
        {{"--init", "--uid", "-1"},                "--uid '-1': expected a number up to 4294967294"                         },
        {{"--init", "--uid", "4294967295"},
         "--uid '4294967295': expected a number up to 4294967294"                                                           },
        {{"--init", "--work-fds", "17"},           "--work-fds '17': expected a number up to 16"                            },
        {{"--init", "--log-file", "x"},            "--exit-file and --log-file go with --listen"                            },
        {{"--listen", "x", "--work-fds", "1"},     "--work-fds goes with --init"                                            },
        {{"--init", "--stat-fds", "2", "--", "x"}, "--stat-fds is 3, and goes with --init"                                  },
        {{"--listen", "x", "--stat-fds", "3"},     "--stat-fds is 3, and goes with --init"                                  },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *argv[8] = {"execd"};
        struct execd_options o;
        struct err e = {0};

        memcpy(argv + 1, cases[i].args, sizeof(cases[i].args));
        CHECK_EQ(execd_options_parse(argv, &o, &e), -EINVAL);
        CHECK_STR(e.msg, cases[i].message);
    }
}

TEST(options, survives_an_empty_argv)
{
    struct execd_options o;

    CHECK_EQ(execd_options_parse((const char *[]){NULL}, &o, NULL), -EINVAL);
}
