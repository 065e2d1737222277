/* cmd_config.c - osb config and osb completion: what needs no server. */
#include "osb/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"

int settings_write(struct cli *cli, struct str text)
{
    char *path = arena_strdup(&cli->arena, str_of(cli->settings.path));
    char *slash = path ? strrchr(path, '/') : NULL;
    auto_fd dir = -EBADF;
    struct err e = {0};

    if (slash && slash != path) {
        *slash = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return cli_error(cli, "File", "Cannot make '%s': %s", path, strerror(errno));
        dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    } else {
        dir = open(slash ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    if (dir < 0)
        return cli_error(cli, "File", "Cannot open the directory of '%s': %s", cli->settings.path,
                         strerror(errno));
    if (io_write_file_atomic(dir, slash ? slash + 1 : cli->settings.path, text, 0600, &e) < 0)
        return cli_error(cli, "File", "%s", e.msg);
    return 0;
}

int config_init(struct cli *cli)
{
    int r;

    if (cli->settings.file_exists && !cli_flag(cli, "force"))
        return cli_warning(cli, "Config file already exists at %s. Use --force to overwrite.",
                           cli->settings.path);
    r = settings_write(cli, str_of(settings_template));
    return r ? r : cli_message(cli, "Config file created: %s", cli->settings.path);
}

static const char *mask(struct cli *cli, const char *secret)
{
    size_t n = secret ? strlen(secret) : 0;
    char *masked = secret ? arena_strdup(&cli->arena, str_of(secret)) : NULL;

    for (size_t i = 0; masked && i < n; i++)
        if (n <= 4 || (i >= 2 && i + 2 < n))
            masked[i] = '*';
    return masked;
}

int config_show(struct cli *cli)
{
    const struct settings *s = &cli->settings;
    struct doc doc;

    doc_begin(&doc);
    doc_text(&doc, "api_key", mask(cli, s->api_key));
    doc_text(&doc, "domain", s->domain);
    doc_text(&doc, "protocol", s->protocol);
    json_member_i64(&doc.w, STR("request_timeout"), s->request_timeout_s);
    json_member_bool(&doc.w, STR("use_server_proxy"), s->use_server_proxy);
    json_member_bool(&doc.w, STR("color"), s->color);
    doc_text(&doc, "default_image", s->image);
    doc_text(&doc, "default_timeout", s->timeout);
    doc_text(&doc, "config_path", s->path);
    json_member_bool(&doc.w, STR("config_file_exists"), s->file_exists);
    return cli_object(cli, "Resolved Configuration", &doc);
}

int config_set(struct cli *cli)
{
    const char *key = cli_argument(cli, 0), *value = cli_argument(cli, 1);
    struct str field = str_of(key), section, text;
    int r;

    if (!cli->settings.file_exists)
        return cli_error(cli, "Configuration",
                         "Config file not found: %s. Run 'osb config init' first.",
                         cli->settings.path);
    str_cut(&field, '.', &section);
    if (section.n == 0 || field.n == 0 || str_find(field, '.') < field.n)
        return cli_error(cli, "Configuration",
                         "Key must be in 'section.field' format (e.g. connection.domain).");
    for (const char *c = key; *c; c++)
        if (!ascii_is_alpha(*c) && !ascii_is_digit(*c) && !strchr("_-.", *c))
            return cli_error(cli, "Configuration",
                             "Key '%s' has characters other than letters, digits, '_' and '-'.",
                             key);
    text = cli_read_file(cli, cli->settings.path);
    if (!text.p)
        return EXIT_FAILED;
    text = settings_set(&cli->arena, text, section, field, str_of(value));
    r = text.p ? settings_write(cli, text) : EXIT_FAILED;
    return r ? r : cli_message(cli, "Set %s = %s", key, value);
}

int completion(struct cli *cli)
{
    AUTO_BUF(text, DOC_BYTES_MAX);

    if (help_generate(&text, cli_argument(cli, 0)) < 0) {
        cli_error(cli, "Usage", "'%s' is not one of bash, zsh, fish, man.", cli_argument(cli, 0));
        return EXIT_USAGE;
    }
    return cli_write(text.p, text.n) < 0 ? EXIT_FAILED : EXIT_OK;
}
