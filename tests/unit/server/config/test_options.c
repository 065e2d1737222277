#include "server/config/options.h"

#include "test.h"

static int parse(const char *const *args, struct options *ret, struct err *e)
{
    const char *argv[12] = {"opensandbox-server"};

    for (size_t i = 0; args[i]; i++)
        argv[i + 1] = args[i];
    return options_parse(argv, ret, e);
}

TEST(options, run_the_server_when_there_are_none)
{
    struct options o;

    CHECK_EQ(parse((const char *[]){NULL}, &o, NULL), 0);
    CHECK_EQ(o.mode, OPTIONS_RUN);
    CHECK(!o.config.path && !o.config.host && !o.config.port && !o.config.state && !o.reload);
    CHECK_EQ(options_parse((const char *[]){NULL}, &o, NULL), 0); /* not even a name */
}

TEST(options, take_values_in_both_forms)
{
    struct options o;

    CHECK_EQ(parse((const char *[]){"--config", "c", "--host=h", "--port", "80", "--state=/s",
                                    "--reload", NULL},
                   &o, NULL),
             0);
    CHECK_EQ(o.mode, OPTIONS_RUN);
    CHECK_STR(o.config.path, "c");
    CHECK_STR(o.config.host, "h");
    CHECK_STR(o.config.port, "80");
    CHECK_STR(o.config.state, "/s");
    CHECK(o.reload);
}

TEST(options, choose_a_mode)
{
    static const struct {
        const char *name;
        enum options_mode mode;
    } modes[] = {
        {"--check",           OPTIONS_CHECK          },
        {"--print-config",    OPTIONS_PRINT_CONFIG   },
        {"--print-reference", OPTIONS_PRINT_REFERENCE},
        {"--print-routes",    OPTIONS_PRINT_ROUTES   },
        {"--version",         OPTIONS_VERSION        },
        {"--help",            OPTIONS_HELP           },
        {"-h",                OPTIONS_HELP           },
    };
    struct options o;

    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        CHECK_EQ(parse((const char *[]){modes[i].name, NULL}, &o, NULL), 0);
        CHECK_EQ(o.mode, modes[i].mode);
        CHECK(strstr(options_help, modes[i].name) || modes[i].name[1] == 'h');
    }
}

TEST(options, write_a_configuration)
{
    struct options o;

    CHECK_EQ(parse((const char *[]){"init-config", NULL}, &o, NULL), 0);
    CHECK_EQ(o.mode, OPTIONS_INIT_CONFIG);
    CHECK(!o.init_path && !o.example && !o.force);
    CHECK_EQ(
        parse((const char *[]){"init-config", "--force", "p", "--example", "k8s", NULL}, &o, NULL),
        0);
    CHECK_STR(o.init_path, "p");
    CHECK_STR(o.example, "k8s");
    CHECK(o.force);
}

TEST(options, say_what_is_wrong)
{
    static const struct {
        const char *args[4];
        const char *message;
    } cases[] = {
        {{"--nope"},                       "unknown option '--nope'"                        },
        {{"--"},                           "unknown option '--'"                            },
        {{"word"},                         "unexpected argument 'word'"                     },
        {{"--port"},                       "--port needs a value"                           },
        {{"--check=1"},                    "--check takes no value"                         },
        {{"--check", "--print-config"},    "--print-config: another mode was chosen already"},
        {{"--force"},                      "unknown option '--force'"                       },
        {{"init-config", "--port", "1"},   "unknown option '--port'"                        },
        {{"init-config", "a", "b"},        "unexpected argument 'b'"                        },
        {{"init-config", "--example"},     "--example needs a value"                        },
        {{"--config", "c", "init-config"}, "unexpected argument 'init-config'"              },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct options o;
        struct err e = {0};

        CHECK_EQ(parse(cases[i].args, &o, &e), -EINVAL);
        CHECK_STR(e.msg, cases[i].message);
    }
}
