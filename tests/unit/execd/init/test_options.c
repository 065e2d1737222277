#include "execd/init/options.h"

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
        "4",
        "--work-dir-fds",
        "1",
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
    CHECK_EQ(o.stat_fds, 4);
    CHECK_EQ(o.work_dir_fds, 1);
    CHECK_EQ(o.cpu_millis, 500);
    CHECK_EQ(o.memory_mib, 512);
    CHECK_STR(o.access_token, "t");
    CHECK_STR(o.entry_argv[0], "sh");
    CHECK_STR(o.entry_argv[2], "--init");
    CHECK(!o.entry_argv[3]);
}

TEST(options, reads_what_is_said_of_isolated_sessions)
{
    static const char *const argv[] = {
        "execd",
        "--init",
        "--isolation-upper-root",
        "/u",
        "--isolation-upper-max-bytes",
        "9000000000",
        "--",
        "sh",
        NULL,
    };
    struct execd_options o;

    CHECK_EQ(execd_options_parse(argv, &o, NULL), 0);
    CHECK_STR(o.isolation_upper_root, "/u");
    CHECK_EQ(o.isolation_upper_bytes, UINT64_C(9000000000));
    CHECK_EQ(o.isolation_diff_bytes, UINT64_C(4) << 30);
    CHECK(!o.isolation_writable);
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
        {{"--nope"},                               "unknown option '--nope'"                            },
        {{"-nope=1"},                              "unknown option '-nope=1'"                           },
        {{"---port", "1"},                         "unknown option '---port'"                           },
        {{"--port", "65536"},                      "--port '65536': expected a number up to 65535"      },
        {{"--graceful-shutdown-timeout=x"},
         "--graceful-shutdown-timeout 'x': expected a time such as 1.5s"                                },
        {{"--jupyter-host", "localhost"},
         "--jupyter-host 'localhost': expected http:// or https://"                                     },
        {{"--isolation-diff-max-bytes", "0"},
         "--isolation-diff-max-bytes '0': expected a number of bytes"                                   },
        {{"--init"},                               "no program behind '--'"                             },
        {{"--init", "--"},                         "no program behind '--'"                             },
        {{"--init", "--listen", "unix:/x"},        "--listen: the mode was chosen already"              },
        {{"--version", "--help"},                  "--help: the mode was chosen already"                },
        {{"--print-routes", "--", "sh"},           "a program goes with --init, --listen or --bootstrap"},
        {{"--help", "--", "sh"},                   "a program goes with --init, --listen or --bootstrap"},
        {{"--init", "--uid"},                      "--uid needs a value"                                },
        {{"--init", "--uid", "-1"},                "--uid '-1': expected a number up to 4294967294"     },
        {{"--init", "--uid", "4294967295"},
         "--uid '4294967295': expected a number up to 4294967294"                                       },
        {{"--init", "--work-fds", "17"},           "--work-fds '17': expected a number up to 16"        },
        {{"--init", "--log-file", "x"},            "--exit-file and --log-file go with --listen"        },
        {{"--init", "--work-dir-fds", "1"},        "--work-dir-fds goes with --work-fds"                },
        {{"--listen", "x", "--work-fds", "1"},     "--work-fds goes with --init"                        },
        {{"--init", "--stat-fds", "2", "--", "x"}, "--stat-fds is 4, and goes with --init"              },
        {{"--listen", "x", "--stat-fds", "4"},     "--stat-fds is 4, and goes with --init"              },
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

/* As a container that copies files out of the image of execd starts it. */
TEST(options, serves_by_default_and_ignores_what_is_no_option)
{
    static const char *const rows[][8] = {
        {"execd", "-port=1",    "-log-level", "7",                "tail", "-f", "/dev/null"},
        {"execd",   "--port",    "1",                "--log-level=7",                            "--", "--nope"},
        {"execd",    "--log-level=7","-port","1"},
    };
    struct execd_options o;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_EQ(execd_options_parse(rows[i], &o, NULL), 0);
        CHECK_EQ(o.mode, EXECD_SERVE);
        CHECK_EQ(o.port, 1);
        CHECK_EQ(o.log_level, 7);
        CHECK_EQ(o.drain_ms, 1000);
    }
    CHECK_EQ(execd_options_parse((const char *[]){NULL}, &o, NULL), 0);
    CHECK_EQ(o.port, 44772);
}

TEST(options, takes_the_environment_where_the_line_says_nothing)
{
    static const char *const line[] = {"execd", "-graceful-shutdown-timeout=20ms",
                                       "-jupyter-host=https://x", NULL};
    struct execd_options o;

    CHECK_EQ(setenv("EXECD_API_GRACE_SHUTDOWN", "1m2s", 1), 0);
    CHECK_EQ(setenv("JUPYTER_HOST", "http://127.0.0.1:1", 1), 0);
    CHECK_EQ(execd_options_parse((const char *[]){"execd", NULL}, &o, NULL), 0);
    CHECK_EQ(o.drain_ms, 62000);
    CHECK_STR(o.jupyter_host, "http://127.0.0.1:1");
    CHECK_EQ(execd_options_parse(line, &o, NULL), 0);
    CHECK_EQ(o.drain_ms, 20);
    CHECK_STR(o.jupyter_host, "https://x");
    CHECK_EQ(setenv("EXECD_API_GRACE_SHUTDOWN", "soon", 1), 0);
    CHECK_EQ(execd_options_parse((const char *[]){"execd", NULL}, &o, NULL), -EINVAL);
}

TEST(options, takes_an_entrypoint_with_bootstrap)
{
    static const char *const dashes[] = {"execd", "--bootstrap", "--", "-c", "x", NULL};
    static const char *const words[] = {"execd", "--bootstrap", "sh", "-x", NULL};
    static const char *const none[] = {"execd", "--bootstrap", NULL};
    struct execd_options o;

    CHECK_EQ(execd_options_parse(dashes, &o, NULL), 0);
    CHECK_STR(o.entry_argv[0], "-c");
    CHECK_EQ(execd_options_parse(words, &o, NULL), 0);
    CHECK_STR(o.entry_argv[1], "-x");
    CHECK_EQ(execd_options_parse(none, &o, NULL), 0);
    CHECK(!o.entry_argv);
}
