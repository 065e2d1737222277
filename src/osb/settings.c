/* settings.c - flags, environment, file, defaults; and the file itself. */
#include "osb/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/io.h"
#include "base/toml.h"

enum { SETTINGS_BYTES_MAX = 1024 * 1024 };

const char settings_template[] =
    "# OpenSandbox: settings of the command line. Flags count more, then the environment.\n"
    "\n"
    "[connection]\n"
    "# api_key = \"the key of the server\"\n"
    "# domain = \"localhost:8080\"\n"
    "# protocol = \"http\"\n"
    "# request_timeout = 30\n"
    "# use_server_proxy = false\n"
    "\n"
    "[output]\n"
    "# color = true\n"
    "# format = \"table\"\n"
    "\n"
    "[defaults]\n"
    "# image = \"python:3.12\"\n"
    "# timeout = \"10m\"  # or \"none\": such sandboxes do not expire\n";

static const char *env_text(const char *name)
{
    const char *text = getenv(name);

    return text && text[0] ? text : NULL;
}

static int read_bool(const char *text)
{
    static const char *const words[2][4] = {
        {"0", "false", "no",  "off"},
        {"1", "true",  "yes", "on" }
    };

    for (int value = 0; text && value < 2; value++)
        for (size_t i = 0; i < 4; i++)
            if (str_eq_nocase(str_trim(str_of(text)), str_of(words[value][i])))
                return value;
    return -1;
}

static const char *file_text(const struct toml *root, const char *path)
{
    const struct toml *v = toml_get_path(root, str_of(path));
    struct str text;

    return v && toml_to_str(v, &text, NULL) == 0 && text.n > 0 ? text.p : NULL;
}

static int64_t file_number(const struct toml *root, const char *path)
{
    const struct toml *v = toml_get_path(root, str_of(path));
    int64_t number;

    return v && toml_to_i64_range(v, 1, INT32_MAX / 1000, &number, NULL) == 0 ? number : 0;
}

static bool file_bool(const struct toml *root, const char *path, bool otherwise)
{
    const struct toml *v = toml_get_path(root, str_of(path));
    bool value;

    return v && toml_to_bool(v, &value, NULL) == 0 ? value : otherwise;
}

static int load_file(struct cli *cli, struct toml **ret_root, struct err *e)
{
    struct settings *s = &cli->settings;
    AUTO_BUF(text, SETTINGS_BYTES_MAX);
    const char *home = env_text("HOME");
    int r;

    s->path = cli_text(cli, "config");
    if (!s->path)
        s->path = arena_printf(&cli->arena, "%s/.opensandbox/config.toml", home ? home : "");
    if (!s->path)
        return err_set(e, ENOMEM, "out of memory");
    s->file_exists = access(s->path, F_OK) == 0;
    if (!s->file_exists)
        return 0;
    r = io_read_file(AT_FDCWD, s->path, SETTINGS_BYTES_MAX, &text, e);
    if (r < 0)
        return r;
    return toml_parse(&cli->arena, buf_str(&text), s->path, ret_root, e);
}

static const char *first_of(const char *a, const char *b, const char *c)
{
    return a && a[0] ? a : b ? b : c;
}

int settings_load(struct cli *cli, struct err *e)
{
    struct settings *s = &cli->settings;
    struct toml *root = NULL;
    int64_t number;
    int r, env;

    r = load_file(cli, &root, e);
    if (r < 0)
        return r;
    s->api_key = first_of(cli_text(cli, "api-key"), env_text("OPEN_SANDBOX_API_KEY"),
                          file_text(root, "connection.api_key"));
    s->domain = first_of(cli_text(cli, "domain"), env_text("OPEN_SANDBOX_DOMAIN"),
                         file_text(root, "connection.domain"));
    s->protocol = first_of(cli_text(cli, "protocol"), env_text("OPEN_SANDBOX_PROTOCOL"),
                           file_text(root, "connection.protocol"));
    if (!s->protocol)
        s->protocol = "http";

    s->request_timeout_s = cli_number(cli, "request-timeout", 0);
    if (s->request_timeout_s == 0 && env_text("OPEN_SANDBOX_REQUEST_TIMEOUT") &&
        str_to_i64_range(str_of(env_text("OPEN_SANDBOX_REQUEST_TIMEOUT")), 1, INT32_MAX / 1000,
                         &number) == 0)
        s->request_timeout_s = number;
    if (s->request_timeout_s == 0)
        s->request_timeout_s = file_number(root, "connection.request_timeout");
    if (s->request_timeout_s == 0)
        s->request_timeout_s = 30;

    env = read_bool(getenv("OPEN_SANDBOX_USE_SERVER_PROXY"));
    if (parsed_value(&cli->line, "use-server-proxy"))
        s->use_server_proxy = cli_flag(cli, "use-server-proxy");
    else if (env >= 0)
        s->use_server_proxy = env;
    else
        s->use_server_proxy = file_bool(root, "connection.use_server_proxy", false);

    s->color = file_bool(root, "output.color", true);
    s->format = file_text(root, "output.format");
    s->image = file_text(root, "defaults.image");
    s->timeout = file_text(root, "defaults.timeout");
    return 0;
}

/* --- setting a value, line by line, so that comments stay --- */

/* true, 30 and 1.5 as they are, anything else as a string. */
static void add_value(struct buf *out, struct str value)
{
    int64_t number;
    char *end;

    if (str_eq_nocase(value, STR("true")) || str_eq_nocase(value, STR("false"))) {
        for (size_t i = 0; i < value.n; i++)
            buf_add_char(out, ascii_lower(value.p[i]));
        return;
    }
    if (str_to_i64(value, &number) == 0) {
        buf_addf(out, "%lld", (long long)number);
        return;
    }
    /* TOML wants digits on both sides of the point. */
    if (value.n > 2 && value.n < 40 && ascii_is_digit(value.p[0]) &&
        ascii_is_digit(value.p[value.n - 1]) && str_find(value, '.') < value.n &&
        (strtod(value.p, &end), end == value.p + value.n)) {
        buf_add(out, value);
        return;
    }
    buf_add_char(out, '"');
    for (size_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];

        if (c == '"' || c == '\\')
            buf_addf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buf_addf(out, "\\u%04x", c);
        else
            buf_add_char(out, (char)c);
    }
    buf_add_char(out, '"');
}

/* Whether a line sets `field`, or would without its '#'. */
static bool sets_field(struct str line, struct str field)
{
    line = str_trim(line);
    if (str_starts(line, STR("#")))
        line = str_trim(str_skip(line, 1));
    if (!str_starts(line, field))
        return false;
    return str_starts(str_trim(str_skip(line, field.n)), STR("="));
}

struct str settings_set(struct arena *a, struct str text, struct str section, struct str field,
                        struct str value)
{
    AUTO_BUF(out, SETTINGS_BYTES_MAX);
    AUTO_BUF(wanted, 1024);
    struct str rest = text, line;
    bool here = false, done = false;

    buf_addf(&wanted, "[%.*s]", STR_ARG(section));
    while (str_cut(&rest, '\n', &line)) {
        bool header = str_starts(str_trim(line), STR("["));

        if (!rest.p && line.n == 0)
            break;                     /* the end of the last line */
        if (here && !done && header) { /* the section ends without the field */
            buf_addf(&out, "%.*s = ", STR_ARG(field));
            add_value(&out, value);
            buf_add_char(&out, '\n');
            done = true;
        }
        if (header)
            here = str_eq(str_trim(line), buf_str(&wanted));
        if (here && !done && sets_field(line, field)) {
            buf_addf(&out, "%.*s = ", STR_ARG(field));
            add_value(&out, value);
            done = true;
        } else {
            buf_add(&out, line);
        }
        buf_add_char(&out, '\n');
    }
    if (!done) {
        if (!here)
            buf_addf(&out, "\n%s\n", wanted.p);
        buf_addf(&out, "%.*s = ", STR_ARG(field));
        add_value(&out, value);
        buf_add_char(&out, '\n');
    }
    return arena_str(a, buf_str(&out));
}
