/* print.c - results and errors, in the format that was asked for. */
#include "osb/cli.h"

#include <errno.h>
#include <unistd.h>

#include "base/io.h"
#include "base/time.h"

/* --- documents --- */

void doc_begin(struct doc *doc)
{
    buf_init(&doc->text, DOC_BYTES_MAX);
    json_write_begin(&doc->w, &doc->text);
    json_write_object(&doc->w);
}

void doc_begin_array(struct doc *doc)
{
    buf_init(&doc->text, DOC_BYTES_MAX);
    json_write_begin(&doc->w, &doc->text);
    json_write_array(&doc->w);
}

void doc_text(struct doc *doc, const char *key, const char *value)
{
    json_write_key(&doc->w, str_of(key));
    if (value)
        json_write_string(&doc->w, str_of(value));
    else
        json_write_null(&doc->w);
}

void doc_done(struct doc *doc)
{
    buf_done(&doc->text);
}

static const struct json *doc_end(struct cli *cli, struct doc *doc)
{
    const struct json *v = NULL;

    if (doc->w.depth == 1 && (doc->w.objects[0] & 1))
        json_write_object_end(&doc->w);
    else if (doc->w.depth == 1)
        json_write_array_end(&doc->w);
    if (json_write_end(&doc->w) == 0)
        v = cli_parse(cli, buf_str(&doc->text));
    doc_done(doc);
    return v;
}

/* --- bytes --- */

int cli_write(const char *data, size_t bytes)
{
    return io_write_full(STDOUT_FILENO, str_make(data, bytes), DEADLINE_NEVER);
}

static void write_buf(int fd, struct buf *b)
{
    if (io_write_full(fd, buf_str(b), DEADLINE_NEVER) < 0)
        b->n = 0; /* nobody reads: there is nobody to tell */
}

void cli_print(struct cli *cli, const struct json *v)
{
    AUTO_BUF(out, DOC_BYTES_MAX);

    if (!v)
        return;
    if (cli->format == FORMAT_YAML)
        format_yaml(&out, v);
    else
        format_json(&out, v);
    write_buf(STDOUT_FILENO, &out);
}

/* --- results --- */

static bool is_structured(const struct cli *cli)
{
    return cli->format == FORMAT_JSON || cli->format == FORMAT_YAML;
}

int cli_panel(struct cli *cli, const char *title, struct doc *doc)
{
    const struct json *v = doc_end(cli, doc);
    AUTO_BUF(out, DOC_BYTES_MAX);

    if (is_structured(cli)) {
        cli_print(cli, v);
        return EXIT_OK;
    }
    if (cli->color)
        buf_addf(&out, "\033[1;32m✓ %s\033[0m\n", title);
    else
        buf_addf(&out, "--- %s ---\n", title);
    json_each(member, v)
    {
        buf_addf(&out, "  %s%.*s:%s ", cli->color ? "\033[1m" : "", STR_ARG(member->key),
                 cli->color ? "\033[0m" : "");
        if (member->type == JSON_STRING)
            buf_add(&out, member->string);
        else
            format_json_line(&out, member);
        if (out.p[out.n - 1] != '\n')
            buf_add_char(&out, '\n');
    }
    write_buf(STDOUT_FILENO, &out);
    return EXIT_OK;
}

static void add_title(struct cli *cli, struct buf *out, const char *title)
{
    if (title)
        buf_addf(out, "%s%s%s\n", cli->color ? "\033[1;36m" : "", title,
                 cli->color ? "\033[0m" : "");
}

int cli_object(struct cli *cli, const char *title, struct doc *doc)
{
    const struct json *v = doc_end(cli, doc);
    AUTO_BUF(out, DOC_BYTES_MAX);

    if (is_structured(cli)) {
        cli_print(cli, v);
        return EXIT_OK;
    }
    add_title(cli, &out, title);
    format_pairs(&out, v, cli->color);
    write_buf(STDOUT_FILENO, &out);
    return EXIT_OK;
}

void cli_print_table(struct cli *cli, const char *columns, const struct json *rows)
{
    AUTO_BUF(out, DOC_BYTES_MAX);

    format_table(&out, columns, rows, cli->color);
    write_buf(STDOUT_FILENO, &out);
}

int cli_rows(struct cli *cli, const char *title, const char *columns, struct doc *doc)
{
    const struct json *v = doc_end(cli, doc);
    AUTO_BUF(out, DOC_BYTES_MAX);

    if (is_structured(cli)) {
        cli_print(cli, v);
        return EXIT_OK;
    }
    add_title(cli, &out, title);
    write_buf(STDOUT_FILENO, &out);
    cli_print_table(cli, columns, v);
    return EXIT_OK;
}

/* --- messages --- */

struct message_kind {
    const char *status, *plain, *style;
    int fd;
};

static void say(struct cli *cli, const struct message_kind *kind, const char *fmt, va_list ap)
{
    AUTO_BUF(text, DOC_BYTES_MAX);
    AUTO_BUF(out, DOC_BYTES_MAX);
    struct doc doc;

    buf_vaddf(&text, fmt, ap);
    if (is_structured(cli)) {
        doc_begin(&doc);
        doc_text(&doc, "status", kind->status);
        doc_text(&doc, "message", text.p);
        cli_print(cli, doc_end(cli, &doc));
        return;
    }
    if (cli->color)
        buf_addf(&out, "%s%s\033[0m\n", kind->style, text.p);
    else
        buf_addf(&out, "%s: %s\n", kind->plain, text.p);
    write_buf(kind->fd, &out);
}

int cli_message(struct cli *cli, const char *fmt, ...)
{
    static const struct message_kind kind = {"ok", "OK", "\033[1;32m✓ ", STDOUT_FILENO};
    va_list ap;

    va_start(ap, fmt);
    say(cli, &kind, fmt, ap);
    va_end(ap);
    return EXIT_OK;
}

int cli_info(struct cli *cli, const char *fmt, ...)
{
    static const struct message_kind kind = {"info", "INFO", "\033[1;34m", STDOUT_FILENO};
    va_list ap;

    va_start(ap, fmt);
    say(cli, &kind, fmt, ap);
    va_end(ap);
    return EXIT_OK;
}

int cli_warning(struct cli *cli, const char *fmt, ...)
{
    static const struct message_kind kind = {"warning", "WARN", "\033[1;33m", STDERR_FILENO};
    va_list ap;

    va_start(ap, fmt);
    say(cli, &kind, fmt, ap);
    va_end(ap);
    return EXIT_OK;
}

/* --- errors: on standard error, whatever the format, so that results stay results --- */

static void write_error(struct cli *cli, const char *title, const char *text, const char *hint,
                        const struct osb_error *error)
{
    AUTO_BUF(out, DOC_BYTES_MAX);
    struct doc doc;

    if (cli->errors == FORMAT_JSON || cli->errors == FORMAT_YAML) {
        doc_begin(&doc);
        doc_text(&doc, "status", "error");
        doc_text(&doc, "title", title);
        doc_text(&doc, "message", text);
        doc_text(&doc, "hint", hint);
        if (error) {
            doc_text(&doc, "code", osb_error_code(error));
            json_member_i64(&doc.w, STR("http_status"), osb_error_status(error));
            doc_text(&doc, "request_id", osb_error_request_id(error));
        }
        if (cli->errors == FORMAT_YAML)
            format_yaml(&out, doc_end(cli, &doc));
        else
            format_json(&out, doc_end(cli, &doc));
    } else {
        if (cli->color)
            buf_addf(&out, "\033[1;31m%s:\033[0m %s\n", title, text);
        else
            buf_addf(&out, "ERROR [%s]: %s\n", title, text);
        if (hint)
            buf_addf(&out, "%s\n", hint);
    }
    write_buf(STDERR_FILENO, &out);
}

int cli_error(struct cli *cli, const char *title, const char *fmt, ...)
{
    AUTO_BUF(text, DOC_BYTES_MAX);
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(&text, fmt, ap);
    va_end(ap);
    write_error(cli, title, text.p, NULL, NULL);
    return EXIT_FAILED;
}

/* What to do about it, or NULL. */
static const char *hint_of(struct cli *cli, const struct osb_error *error)
{
    int status = osb_error_status(error), code = osb_error_errno(error);

    if (status == 401 || status == 403)
        return "Pass the API key of the server: --api-key, OPEN_SANDBOX_API_KEY, or `osb config "
               "init` and `osb config set connection.api_key KEY`. A local server wrote its key to "
               "/var/lib/opensandbox/server/api_key.";
    if (status == 0 && (code == ECONNREFUSED || code == EHOSTUNREACH || code == ENETUNREACH ||
                        code == ENOENT || code == ETIMEDOUT))
        return arena_printf(&cli->arena,
                            "No server answers at %s. `osb up` starts one on this machine; "
                            "--domain or OPEN_SANDBOX_DOMAIN names another; `osb doctor` looks "
                            "closer.",
                            osb_client_base_url(cli->client));
    if (status == 501)
        return "This server does not have that feature.";
    return NULL;
}

int cli_failed(struct cli *cli)
{
    const struct osb_error *error = osb_client_error(cli->client);

    write_error(cli, "Sandbox Error", osb_error_message(error), hint_of(cli, error), error);
    return EXIT_FAILED;
}
