#include "server/config/options.h"

#include <errno.h>

const char options_help[] =
    "usage: opensandbox-server [OPTION...]\n"
    "       opensandbox-server init-config [PATH] [--example NAME] [--force]\n"
    "Serves the lifecycle API of OpenSandbox.\n"
    "\n"
    "  --config PATH      configuration file; otherwise SANDBOX_CONFIG_PATH, ~/.sandbox.toml or\n"
    "                     /etc/opensandbox/config.toml, and built-in defaults without any\n"
    "  --host HOST        address to listen at, instead of server.host\n"
    "  --port N           port to listen at, instead of server.port\n"
    "  --state DIR        where sandboxes live, instead of server.state\n"
    "  --check            load and check the configuration, say what is wrong, exit 0 or 1\n"
    "  --print-config     print the configuration that counts, and where each value came from\n"
    "  --print-reference  print the reference of all sections and keys, as Markdown\n"
    "  --print-routes     print the routes of the API\n"
    "  --reload           accepted for compatibility, ignored\n"
    "  --version          print the version and exit\n"
    "  --help             print this text and exit\n"
    "\n"
    "init-config writes a configuration file, ~/.sandbox.toml unless PATH is given: every key in\n"
    "comments, or with --example a commented example: embedded, docker, k8s. --force replaces an\n"
    "existing file.\n";

enum option_kind { OPTION_MODE, OPTION_TEXT, OPTION_FLAG };
enum option_place { OF_SERVER = 1, OF_INIT = 2, OF_BOTH = 3 };

struct option_row {
    const char *name;
    enum option_kind kind;
    enum option_place place;
    size_t offset;          /* of the value's field in struct options */
    enum options_mode mode; /* of OPTION_MODE */
};

#define AT(field) offsetof(struct options, field)

static const struct option_row option_rows[] = {
    {"--check",           OPTION_MODE, OF_SERVER, 0,                OPTIONS_CHECK          },
    {"--config",          OPTION_TEXT, OF_SERVER, AT(config.path),  OPTIONS_RUN            },
    {"--example",         OPTION_TEXT, OF_INIT,   AT(example),      OPTIONS_RUN            },
    {"--force",           OPTION_FLAG, OF_INIT,   AT(force),        OPTIONS_RUN            },
    {"--help",            OPTION_MODE, OF_BOTH,   0,                OPTIONS_HELP           },
    {"--host",            OPTION_TEXT, OF_SERVER, AT(config.host),  OPTIONS_RUN            },
    {"--port",            OPTION_TEXT, OF_SERVER, AT(config.port),  OPTIONS_RUN            },
    {"--print-config",    OPTION_MODE, OF_SERVER, 0,                OPTIONS_PRINT_CONFIG   },
    {"--print-reference", OPTION_MODE, OF_SERVER, 0,                OPTIONS_PRINT_REFERENCE},
    {"--print-routes",    OPTION_MODE, OF_SERVER, 0,                OPTIONS_PRINT_ROUTES   },
    {"--reload",          OPTION_FLAG, OF_SERVER, AT(reload),       OPTIONS_RUN            },
    {"--state",           OPTION_TEXT, OF_SERVER, AT(config.state), OPTIONS_RUN            },
    {"--version",         OPTION_MODE, OF_SERVER, 0,                OPTIONS_VERSION        },
    {"-h",                OPTION_MODE, OF_BOTH,   0,                OPTIONS_HELP           },
};

/* The row of "--name" or "--name=value"; *ret_value is the text after the =, or NULL. */
static const struct option_row *option_find(const char *arg, const char **ret_value)
{
    size_t n = str_find(str_of(arg), '=');

    *ret_value = arg[n] ? arg + n + 1 : NULL;
    for (size_t i = 0; i < ARRAY_LEN(option_rows); i++)
        if (str_eq(str_make(arg, n), str_of(option_rows[i].name)))
            return &option_rows[i];
    return NULL;
}

static int option_choose_mode(const struct option_row *row, struct options *o, struct err *e)
{
    if (o->mode != OPTIONS_RUN && o->mode != OPTIONS_INIT_CONFIG)
        return err_set(e, EINVAL, "%s: another mode was chosen already", row->name);
    o->mode = row->mode;
    return 0;
}

/* Parses the option at *argv and advances *argv past it. */
static int option_take(const char *const **argv, enum option_place place, struct options *o,
                       struct err *e)
{
    const char *arg = *(*argv)++, *value;
    const struct option_row *row = option_find(arg, &value);
    void *field = (char *)o + (row ? row->offset : 0);

    if (!row || !(row->place & place))
        return err_set(e, EINVAL, "unknown option '%s'", arg);
    if (row->kind != OPTION_TEXT && value)
        return err_set(e, EINVAL, "%s takes no value", row->name);
    if (row->kind == OPTION_MODE)
        return option_choose_mode(row, o, e);
    if (row->kind == OPTION_FLAG) {
        *(bool *)field = true;
        return 0;
    }
    if (!value && !**argv)
        return err_set(e, EINVAL, "%s needs a value", row->name);
    *(const char **)field = value ? value : *(*argv)++;
    return 0;
}

int options_parse(const char *const *argv, struct options *ret, struct err *e)
{
    struct options o = {.mode = OPTIONS_RUN};
    enum option_place place = OF_SERVER;
    int r = 0;

    if (*argv)
        argv++;
    if (*argv && strcmp(*argv, "init-config") == 0) {
        o.mode = OPTIONS_INIT_CONFIG;
        place = OF_INIT;
        argv++;
    }
    while (r >= 0 && *argv) {
        if (**argv == '-')
            r = option_take(&argv, place, &o, e);
        else if (place == OF_INIT && !o.init_path)
            o.init_path = *argv++;
        else
            r = err_set(e, EINVAL, "unexpected argument '%s'", *argv);
    }
    if (r >= 0)
        *ret = o;
    return r;
}
