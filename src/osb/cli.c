/* cli.c - the command line, the client and files, as commands use them. */
#include "osb/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/io.h"
#include "kube/yaml.h"

/* --- the command line --- */

const char *cli_argument(const struct cli *cli, size_t index)
{
    return index < cli->line.argument_count ? cli->line.arguments[index] : NULL;
}

const char *const *cli_arguments(const struct cli *cli, size_t index)
{
    return cli->line.arguments + min_size(index, cli->line.argument_count);
}

const char *cli_text(const struct cli *cli, const char *name)
{
    const struct value *v = parsed_value(&cli->line, name);

    return v ? v->text : NULL;
}

bool cli_flag(const struct cli *cli, const char *name)
{
    const struct value *v = parsed_value(&cli->line, name);

    return v && !v->negated;
}

int64_t cli_number(const struct cli *cli, const char *name, int64_t otherwise)
{
    const struct value *v = parsed_value(&cli->line, name);

    return v ? v->number : otherwise;
}

const char *const *cli_texts(struct cli *cli, const char *name, size_t *ret_count)
{
    const char **texts = arena_new_array(&cli->arena, const char *, cli->line.value_count + 1);
    size_t n = 0;

    for (size_t i = 0; texts && i < cli->line.value_count; i++)
        if (strcmp(cli->line.values[i].option->name, name) == 0)
            texts[n++] = cli->line.values[i].text;
    if (ret_count)
        *ret_count = n;
    return n > 0 ? texts : NULL;
}

struct osb_pair *cli_pairs(struct cli *cli, const char *name, size_t *ret_count)
{
    const char *const *texts = cli_texts(cli, name, ret_count);
    struct osb_pair *pairs;

    if (!texts)
        return NULL;
    pairs = arena_new_array(&cli->arena, struct osb_pair, *ret_count);
    for (size_t i = 0; pairs && i < *ret_count; i++) {
        struct str rest = str_of(texts[i]), key;

        str_cut(&rest, '=', &key);
        pairs[i] = (struct osb_pair){arena_strdup(&cli->arena, key), rest.p ? rest.p : ""};
    }
    return pairs;
}

/* --- the server --- */

int cli_client(struct cli *cli)
{
    const struct settings *s = &cli->settings;
    char why[OSB_MESSAGE_MAX];
    struct osb_config config = {
        OSB_CONFIG,
        .domain = s->domain ? s->domain : "localhost:8080",
        .protocol = s->protocol,
        .api_key = s->api_key ? s->api_key : "",
        .no_environment = true,
        .use_server_proxy = s->use_server_proxy,
        .request_timeout_ms = (uint32_t)(s->request_timeout_s * 1000),
        .user_agent = "osb",
    };

    if (cli->client)
        return 0;
    if (osb_client_open(&config, &cli->client, why) < 0)
        return cli_error(cli, "Configuration", "%s", why);
    return 0;
}

int cli_connect_to(struct cli *cli, const char *id)
{
    int r = cli_client(cli);

    if (r)
        return r;
    osb_sandbox_free(cli->sandbox);
    cli->sandbox = NULL;
    if (osb_sandbox_connect(cli->client, id, &cli->sandbox) < 0)
        return cli_failed(cli);
    return 0;
}

int cli_connect(struct cli *cli)
{
    return cli_connect_to(cli, cli_argument(cli, 0));
}

int cli_request(struct cli *cli, const struct osb_request *request, struct osb_answer **ret_answer)
{
    int r = cli_client(cli);

    if (r)
        return r;
    return osb_request(cli->client, request, ret_answer) < 0 ? cli_failed(cli) : 0;
}

/* --- files --- */

struct str cli_read_file(struct cli *cli, const char *path)
{
    AUTO_BUF(text, CLI_FILE_BYTES_MAX);
    struct err e = {0};
    int r = 0;

    if (strcmp(path, "-") == 0) {
        for (;;) {
            ssize_t n;

            if (buf_reserve(&text, 65536) < 0) {
                r = err_set(&e, EFBIG, "standard input has more than %d MiB",
                            CLI_FILE_BYTES_MAX >> 20);
                break;
            }
            n = read(STDIN_FILENO, text.p + text.n, 65536);
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0)
                r = err_sys(&e, errno, "standard input");
            if (n <= 0)
                break;
            buf_claim(&text, (size_t)n);
        }
    } else {
        r = io_read_file(AT_FDCWD, path, CLI_FILE_BYTES_MAX, &text, &e);
    }
    if (r < 0) {
        cli_error(cli, "File", "Cannot read '%s': %s", path, e.msg);
        return STR_NONE;
    }
    return arena_str(&cli->arena, buf_str(&text));
}

const struct json *cli_parse(struct cli *cli, struct str text)
{
    struct json_limits limits = {.text_bytes_max = DOC_BYTES_MAX, .depth_max = JSON_DEPTH_CEILING};
    struct json *v;

    return text.p && json_parse(&cli->arena, text, &limits, &v, NULL) == 0 ? v : NULL;
}

const struct json *cli_read_json(struct cli *cli, const char *path)
{
    struct str text = cli_read_file(cli, path);
    struct err e = {0};
    struct json *v;

    if (!text.p)
        return NULL;
    if (json_parse(&cli->arena, text, NULL, &v, &e) < 0) {
        cli_error(cli, "File", "'%s' is not JSON: %s", path, e.msg);
        return NULL;
    }
    return v;
}

const struct json *cli_read_yaml(struct cli *cli, const char *path)
{
    AUTO_BUF(text, CLI_FILE_BYTES_MAX);
    struct str given = cli_read_file(cli, path);
    const struct json *v;

    if (!given.p)
        return NULL;
    v = cli_parse(cli, given);
    buf_keep_secret(&text);
    if (!v && kube_yaml_to_json(given, &text, NULL) == 0)
        v = cli_parse(cli, arena_str(&cli->arena, buf_str(&text)));
    if (!v)
        cli_error(cli, "File", "'%s' is neither JSON nor YAML.", path);
    return v;
}

/* --- words for a shell --- */

static bool is_safe(struct str word)
{
    for (size_t i = 0; i < word.n; i++)
        if (!ascii_is_alpha(word.p[i]) && !ascii_is_digit(word.p[i]) &&
            !strchr("_@%+=:,./-", word.p[i]))
            return false;
    return word.n > 0;
}

const char *cli_quote(struct cli *cli, const char *const *words)
{
    AUTO_BUF(out, CLI_FILE_BYTES_MAX);

    for (size_t i = 0; words[i]; i++) {
        if (i > 0)
            buf_add_char(&out, ' ');
        if (is_safe(str_of(words[i]))) {
            buf_add(&out, str_of(words[i]));
            continue;
        }
        buf_add_char(&out, '\'');
        for (const char *c = words[i]; *c; c++)
            if (*c == '\'')
                buf_add(&out, STR("'\"'\"'"));
            else
                buf_add_char(&out, *c);
        buf_add_char(&out, '\'');
    }
    return arena_strdup(&cli->arena, buf_str(&out));
}
