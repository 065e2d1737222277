/* options.c - reads the command line of opensandbox-mcp. */
#include "mcp/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

const char options_help[] =
    "usage: opensandbox-mcp [OPTION...]\n"
    "\n"
    "Gives sandboxes to assistants, by the Model Context Protocol on standard input and output or\n"
    "over HTTP. Sandboxes that it created are deleted when it ends.\n"
    "\n"
    "  --transport stdio|streamable-http  how messages come (stdio)\n"
    "  --api-key KEY                      of the server; else OPEN_SANDBOX_API_KEY\n"
    "  --domain HOST[:PORT]               of the server; else OPEN_SANDBOX_DOMAIN "
    "(localhost:8080)\n"
    "  --protocol http|https              to the server (http)\n"
    "  --config FILE                      TOML with a section called connection\n"
    "  --use-server-proxy                 reach sandboxes through the server\n"
    "  --request-timeout-seconds N        of one request to the server or a sandbox (30)\n"
    "  --call-timeout-seconds N           of one command or cell of code, at most (3600)\n"
    "  --output-bytes N                   of an answer; more is cut and linked (65536)\n"
    "  --keep                             leave sandboxes alone at the end\n"
    "\n"
    "HTTP:\n"
    "  --host ADDRESS                     to listen on (127.0.0.1)\n"
    "  --port N                           (8000)\n"
    "  --path PATH                        (/mcp)\n"
    "  --token TOKEN                      clients send it as Authorization: Bearer TOKEN; else\n"
    "                                     OPENSANDBOX_MCP_TOKEN. Other addresses than those of\n"
    "                                     this machine need one.\n"
    "  --allow-origin ORIGIN              of web pages that may call; those of this machine may\n"
    "\n"
    "  --version, --help\n";

enum option_kind { OPTION_TEXT, OPTION_FLAG, OPTION_CUSTOM };

struct option_row {
    const char *name;
    enum option_kind kind;
    size_t at;
    int (*set)(struct options *o, const char *value, struct err *e);
};

static int set_transport(struct options *o, const char *value, struct err *e)
{
    if (strcmp(value, "stdio") == 0)
        o->transport = TRANSPORT_STDIO;
    else if (strcmp(value, "streamable-http") == 0 || strcmp(value, "http") == 0)
        o->transport = TRANSPORT_HTTP;
    else
        return err_set(e, EINVAL, "--transport %s: expected stdio or streamable-http", value);
    return 0;
}

static int set_protocol(struct options *o, const char *value, struct err *e)
{
    if (strcmp(value, "http") != 0 && strcmp(value, "https") != 0)
        return err_set(e, EINVAL, "--protocol %s: expected http or https", value);
    o->protocol = value;
    return 0;
}

static int set_request_timeout(struct options *o, const char *value, struct err *e)
{
    char *end;
    double seconds = strtod(value, &end);

    if (end == value || *end || !isfinite(seconds) || seconds < 0.1 || seconds > 3600)
        return err_set(e, EINVAL, "--request-timeout-seconds %s: expected 0.1 to 3600", value);
    o->request_timeout_ms = (uint32_t)(seconds * 1000);
    return 0;
}

static int read_number(const char *name, const char *value, uint64_t min, uint64_t max,
                       uint64_t *ret, struct err *e)
{
    if (str_to_u64_range(str_of(value), min, max, ret) == 0)
        return 0;
    return err_set(e, EINVAL, "%s %s: expected %llu to %llu", name, value, (unsigned long long)min,
                   (unsigned long long)max);
}

static int set_call_timeout(struct options *o, const char *value, struct err *e)
{
    uint64_t n;
    int r = read_number("--call-timeout-seconds", value, 1, 7 * 86400, &n, e);

    if (r == 0)
        o->call_timeout_s = (uint32_t)n;
    return r;
}

static int set_output_bytes(struct options *o, const char *value, struct err *e)
{
    uint64_t n;
    int r = read_number("--output-bytes", value, 1024, 8 << 20, &n, e);

    if (r == 0)
        o->output_bytes = (uint32_t)n;
    return r;
}

static int set_port(struct options *o, const char *value, struct err *e)
{
    uint64_t n;
    int r = read_number("--port", value, 0, UINT16_MAX, &n, e);

    if (r == 0)
        o->port = (uint16_t)n;
    return r;
}

static int set_path(struct options *o, const char *value, struct err *e)
{
    if (value[0] != '/' || strpbrk(value, "{}*?#"))
        return err_set(e, EINVAL, "--path %s: expected a path such as /mcp", value);
    o->path = value;
    return 0;
}

static int add_origin(struct options *o, const char *value, struct err *e)
{
    if (o->origin_count == OPTIONS_ORIGINS_MAX)
        return err_set(e, EINVAL, "--allow-origin: at most %d", OPTIONS_ORIGINS_MAX);
    o->origins[o->origin_count++] = value;
    return 0;
}

static int set_help(struct options *o, const char *value UNUSED, struct err *e UNUSED)
{
    o->mode = OPTIONS_HELP;
    return 0;
}

static int set_version(struct options *o, const char *value UNUSED, struct err *e UNUSED)
{
    o->mode = OPTIONS_VERSION;
    return 0;
}

static const struct option_row rows[] = {
    {"--transport",            OPTION_CUSTOM,         0,set_transport},
    {"--api-key",              OPTION_TEXT,           offsetof(struct options,api_key),NULL},
    {"--domain",                        OPTION_TEXT,                                    offsetof(struct options,domain),NULL},
    {"--protocol",                    OPTION_CUSTOM,                                         0,set_protocol                                                      },
    {"--config",            OPTION_TEXT,                                 offsetof(struct options,config_file),NULL},
    {"--use-server-proxy",            OPTION_FLAG,                             offsetof(struct options,use_server_proxy),                                 NULL},
    {"--request-timeout-seconds", OPTION_CUSTOM,0,set_request_timeout},
    {"--call-timeout-seconds",           OPTION_CUSTOM,                                                       0,                                 set_call_timeout                                                                                                                              },
    {"--output-bytes", OPTION_CUSTOM,0,set_output_bytes},
    {"--keep",           OPTION_FLAG,                                                                 offsetof(struct options,                                                                                                                                   keep),                                                                                                                                                                                                                                                                                                                                                                                                                    NULL},
    {"--host",   OPTION_TEXT,offsetof(struct options,host),NULL},
    {"--port",                 OPTION_CUSTOM,                         0, set_port                                                                                                                                                                                                                                   },
    {"--path",                        OPTION_CUSTOM,                                      0,set_path},
    {"--token",                        OPTION_TEXT,                                      offsetof(struct options,token),NULL},
    {"--allow-origin",                        OPTION_CUSTOM,                                     0,add_origin},
    {"--version",                    OPTION_FLAG,                                         0,set_version                                                                                                                                                                                                                                                             },
    {"--help",              OPTION_FLAG,                                   0,                       set_help },
    {"-h",             OPTION_FLAG,                                  0,  set_help},
};

static const struct option_row *find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_eq(str_of(rows[i].name), name))
            return &rows[i];
    return NULL;
}

static int apply(const struct option_row *row, struct options *o, const char *value, struct err *e)
{
    char *base = (char *)o;

    if (row->set)
        return row->set(o, value, e);
    if (row->kind == OPTION_FLAG)
        *(bool *)(base + row->at) = true;
    else
        memcpy(base + row->at, &value, sizeof(value));
    return 0;
}

int options_parse(const char *const *argv, struct options *ret, struct err *e)
{
    const char *token = getenv("OPENSANDBOX_MCP_TOKEN");
    struct options o = {
        .request_timeout_ms = 30 * 1000,
        .call_timeout_s = 3600,
        .output_bytes = 64 << 10,
        .host = "127.0.0.1",
        .port = 8000,
        .path = "/mcp",
        .token = token ? token : "",
    };

    for (size_t i = 1; argv[i]; i++) {
        struct str all = str_of(argv[i]), name = str_make(all.p, str_find(all, '='));
        const struct option_row *row = find(name);
        const char *value = name.n < all.n ? all.p + name.n + 1 : NULL;
        int r;

        if (!row)
            return err_set(e, EINVAL, "unknown option '%s'", argv[i]);
        if (row->kind == OPTION_FLAG && value)
            return err_set(e, EINVAL, "%s takes no value", row->name);
        if (row->kind != OPTION_FLAG && !value)
            value = argv[++i];
        if (row->kind != OPTION_FLAG && !value)
            return err_set(e, EINVAL, "%s needs a value", row->name);
        r = apply(row, &o, value, e);
        if (r < 0)
            return r;
    }
    *ret = o;
    return 0;
}
