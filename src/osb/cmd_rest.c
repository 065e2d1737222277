/* cmd_rest.c - commands that are one request and its answer: forks, pools, the credential vault. */
#include "osb/commands.h"

#include "base/url.h"

enum { PATH_BYTES_MAX = 8192 };

/* What a command sends and shows. */
struct rest {
    const char *command;
    const char *method;
    const char *path;    /* %N is argument N */
    bool egress;         /* to the egress daemon of the sandbox that is argument 0 */
    const char *title;   /* of an object or rows */
    const char *columns; /* of rows, in `items` or `rows`; NULL = an object */
    const char *rows;    /* the member that has the rows under table */
    const char *done;    /* instead of the answer: a message, before argument `about` */
    size_t about;
    /* Writes the body; 0 or an exit status. NULL = none. */
    int (*body)(struct cli *cli, struct json_writer *w);
    /* Writes the answer as the original tool prints it; NULL = with all its keys in snake case. */
    void (*show)(struct json_writer *w, const struct json *answer);
};

/* --- bodies --- */

static int body_of_file(struct cli *cli, struct json_writer *w)
{
    const struct json *v = cli_read_json(cli, cli_text(cli, "file"));

    if (!v)
        return EXIT_FAILED;
    if (v->type != JSON_OBJECT)
        return cli_error(cli, "File", "'%s' must contain a JSON object.", cli_text(cli, "file"));
    json_write_value(w, v);
    return 0;
}

/* The object of a vault's file, JSON or YAML; NULL after it said why not. What is in the file is a
 * secret: no error repeats it. */
static const struct json *vault_file(struct cli *cli)
{
    const struct json *v = cli_read_yaml(cli, cli_text(cli, "file"));

    if (v && v->type != JSON_OBJECT) {
        cli_error(cli, "File", "Credential vault payload must be a JSON or YAML object.");
        return NULL;
    }
    return v;
}

static int body_of_new_vault(struct cli *cli, struct json_writer *w)
{
    static const char *const names[] = {"credentials", "bindings"};
    const struct json *v = vault_file(cli);

    for (size_t i = 0; v && i < ARRAY_LEN(names); i++) {
        const struct json *list = json_get(v, str_of(names[i]));

        if (!list || list->type != JSON_ARRAY)
            return cli_error(cli, "File", "Credential vault payload field '%s' must be a list.",
                             names[i]);
    }
    if (!v)
        return EXIT_FAILED;
    json_write_value(w, v);
    return 0;
}

static int body_of_vault_patch(struct cli *cli, struct json_writer *w)
{
    const struct json *v = vault_file(cli);

    if (!v)
        return EXIT_FAILED;
    json_write_object(w);
    json_each(member, v)
    {
        bool revision = str_eq(member->key, STR("expected_revision")) ||
                        str_eq(member->key, STR("expectedRevision"));
        int64_t number;

        if (member->type == JSON_NULL)
            continue;
        if (revision && json_to_i64(member, &number) < 0)
            return cli_error(cli, "File", "Credential vault expectedRevision must be an integer.");
        if (!revision && member->type != JSON_OBJECT)
            return cli_error(cli, "File", "Credential vault patch field '%.*s' must be an object.",
                             STR_ARG(member->key));
        json_write_key(w, revision ? STR("expectedRevision") : member->key);
        json_write_value(w, member);
    }
    json_write_object_end(w);
    return 0;
}

static void write_map(struct cli *cli, struct json_writer *w, const char *option, const char *key)
{
    size_t n = 0;
    const struct osb_pair *pairs = cli_pairs(cli, option, &n);

    if (!pairs)
        return;
    json_write_key(w, str_of(key));
    json_write_object(w);
    for (size_t i = 0; i < n; i++)
        json_member_string(w, str_of(pairs[i].name), str_of(pairs[i].value));
    json_write_object_end(w);
}

static int body_of_fork(struct cli *cli, struct json_writer *w)
{
    int64_t timeout = cli_number(cli, "timeout", 0);

    json_write_object(w);
    json_member_i64(w, STR("count"), cli_number(cli, "count", 1));
    if (timeout > 0)
        json_member_i64(w, STR("timeout"), timeout);
    write_map(cli, w, "env", "env");
    write_map(cli, w, "metadata", "metadata");
    if (cli_flag(cli, "memory"))
        json_member_bool(w, STR("memory"), true);
    json_write_object_end(w);
    return 0;
}

static int body_of_rollback(struct cli *cli, struct json_writer *w)
{
    json_write_object(w);
    json_member_string(w, STR("snapshotId"), str_of(cli_argument(cli, 1)));
    json_write_object_end(w);
    return 0;
}

/* Members of an object that an option gives. */
struct member {
    const char *option, *name;
    bool number;
};

static void write_members(struct cli *cli, struct json_writer *w, const struct member *rows,
                          size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].number && cli_number(cli, rows[i].option, -1) >= 0)
            json_member_i64(w, str_of(rows[i].name), cli_number(cli, rows[i].option, -1));
        else if (!rows[i].number && cli_text(cli, rows[i].option))
            json_member_string(w, str_of(rows[i].name), str_of(cli_text(cli, rows[i].option)));
}

static int body_of_tenant(struct cli *cli, struct json_writer *w)
{
    static const struct member rows[] = {
        {"sandboxes",           "sandboxes",         true },
        {"cpu",                 "cpu",               false},
        {"memory",              "memory",            false},
        {"disk",                "disk",              false},
        {"creates-per-minute",  "createsPerMinute",  true },
        {"requests-per-second", "requestsPerSecond", true },
    };

    json_write_object(w);
    json_member_string(w, STR("name"), str_of(cli_argument(cli, 0)));
    json_write_key(w, STR("quota"));
    json_write_object(w);
    write_members(cli, w, rows, ARRAY_LEN(rows));
    json_write_object_end(w);
    json_write_object_end(w);
    return 0;
}

static int body_of_key(struct cli *cli, struct json_writer *w)
{
    static const struct member rows[] = {
        {"role",    "role",      false},
        {"tenant",  "tenant",    false},
        {"sandbox", "sandboxId", false},
        {"expires", "expiresAt", false},
    };

    json_write_object(w);
    json_member_string(w, STR("name"), str_of(cli_argument(cli, 0)));
    write_members(cli, w, rows, ARRAY_LEN(rows));
    json_write_object_end(w);
    return 0;
}

static int body_of_rotation(struct cli *cli, struct json_writer *w)
{
    static const struct member rows[] = {
        {"grace", "graceSeconds", true}
    };

    json_write_object(w);
    write_members(cli, w, rows, ARRAY_LEN(rows));
    json_write_object_end(w);
    return 0;
}

static int body_of_targets(struct cli *cli, struct json_writer *w)
{
    const char *const *targets = cli_arguments(cli, 1);

    json_write_array(w);
    for (size_t i = 0; targets[i]; i++)
        json_write_string(w, str_of(targets[i]));
    json_write_array_end(w);
    return 0;
}

/* --- what vaults have --- */

static void show_credential(struct json_writer *w, const struct json *v)
{
    shape_write(w, v, "name source_type revision");
}

static void show_binding(struct json_writer *w, const struct json *v)
{
    shape_write(w, v, "name revision match{schemes ports hosts methods paths} auth{type name}");
}

static void show_credentials(struct json_writer *w, const struct json *v)
{
    json_write_array(w);
    json_each(item, json_get(v, STR("credentials"))) show_credential(w, item);
    json_write_array_end(w);
}

static void show_bindings(struct json_writer *w, const struct json *v)
{
    json_write_array(w);
    json_each(item, json_get(v, STR("bindings"))) show_binding(w, item);
    json_write_array_end(w);
}

static void show_vault(struct json_writer *w, const struct json *v)
{
    json_write_object(w);
    json_write_key(w, STR("revision"));
    if (json_get(v, STR("revision")))
        json_write_value(w, json_get(v, STR("revision")));
    else
        json_write_null(w);
    json_write_key(w, STR("credentials"));
    show_credentials(w, v);
    json_write_key(w, STR("bindings"));
    show_bindings(w, v);
    json_write_object_end(w);
}

/* --- the table --- */

#define VAULT "/credential-vault"

/* clang-format off */
static const struct rest rests[] = {
    {"fork", "POST", "/sandboxes/%0/fork", .title = "Forks", .columns = "id status expires_at",
     .rows = "items", .body = body_of_fork},
    {"rollback", "POST", "/sandboxes/%0/rollback", .done = "Sandbox goes back: ",
     .body = body_of_rollback},
    {"sandbox stop", "POST", "/sandboxes/%0/stop", .done = "Sandbox stops: "},
    {"sandbox start", "POST", "/sandboxes/%0/start", .done = "Sandbox starts: "},
    {"pool list", "GET", "/pools", .title = "Pools", .columns = "name capacity_spec status",
     .rows = "items"},
    {"pool get", "GET", "/pools/%0", .title = "Pool"},
    {"pool create", "POST", "/pools", .title = "Pool", .body = body_of_file},
    {"pool update", "PUT", "/pools/%0", .title = "Pool", .body = body_of_file},
    {"pool delete", "DELETE", "/pools/%0", .done = "Pool deleted: "},
    {"template delete", "DELETE", "/templates/%0", .done = "Template deleted: "},
    {"whoami", "GET", "/whoami", .title = "Principal"},
    {"tenant list", "GET", "/tenants", .title = "Tenants", .columns = "name quota usage",
     .rows = "items"},
    {"tenant get", "GET", "/tenants/%0", .title = "Tenant"},
    {"tenant create", "POST", "/tenants", .title = "Tenant", .body = body_of_tenant},
    {"tenant update", "PATCH", "/tenants/%0", .title = "Tenant", .body = body_of_tenant},
    {"tenant delete", "DELETE", "/tenants/%0", .done = "Tenant deleted: "},
    {"key list", "GET", "/keys", .title = "Keys",
     .columns = "id name role tenant expires_at last_used_at builtin", .rows = "items"},
    {"key get", "GET", "/keys/%0", .title = "Key"},
    {"key create", "POST", "/keys", .title = "Key", .body = body_of_key},
    {"key rotate", "POST", "/keys/%0/rotate", .title = "Key", .body = body_of_rotation},
    {"key revoke", "DELETE", "/keys/%0", .done = "Key revoked: "},
    {"egress delete", "DELETE", "/policy", true, .done = "Rules deleted of sandbox: ",
     .body = body_of_targets},
    {"credential-vault create", "POST", VAULT, true, "Credential Vault", .body = body_of_new_vault,
     .show = show_vault},
    {"credential-vault get", "GET", VAULT, true, "Credential Vault", .show = show_vault},
    {"credential-vault patch", "PATCH", VAULT, true, "Credential Vault",
     .body = body_of_vault_patch, .show = show_vault},
    {"credential-vault delete", "DELETE", VAULT, true, "Credential Vault"},
    {"credential-vault credential list", "GET", VAULT "/credentials", true, "Credentials",
     "name source_type revision", "credentials", .show = show_credentials},
    {"credential-vault credential get", "GET", VAULT "/credentials/%1", true, "Credential",
     .show = show_credential},
    {"credential-vault binding list", "GET", VAULT "/bindings", true, "Bindings",
     "name revision match auth", "bindings", .show = show_bindings},
    {"credential-vault binding get", "GET", VAULT "/bindings/%1", true, "Binding",
     .show = show_binding},
};
/* clang-format on */

static const struct rest *find_rest(const struct cli *cli)
{
    for (size_t i = 0; i < ARRAY_LEN(rests); i++)
        if (strcmp(rests[i].command, cli->line.command->path) == 0)
            return &rests[i];
    return NULL;
}

/* --- one request --- */

static int make_path(struct cli *cli, const char *path, struct buf *out)
{
    int r = 0;

    for (; *path; path++)
        if (*path == '%') {
            r |= url_encode(str_of(cli_argument(cli, (size_t)(path[1] - '0'))), URL_SET_SEGMENT,
                            out);
            path++;
        } else {
            r |= buf_add_char(out, *path);
        }
    return r < 0 ? cli_error(cli, "Usage", "An argument is too long.") : 0;
}

static int show_answer(struct cli *cli, const struct rest *rest, struct osb_answer *answer)
{
    const struct json *v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
    const struct json *rows = rest->rows ? json_get(v, str_of(rest->rows)) : NULL;
    struct doc doc;

    buf_init(&doc.text, DOC_BYTES_MAX);
    json_write_begin(&doc.w, &doc.text);
    if (cli->format == FORMAT_TABLE && rows) {
        shape_snake(&doc.w, rows);
        return cli_rows(cli, rest->title, rest->columns, &doc);
    }
    if (v && rest->show && cli->format != FORMAT_TABLE) {
        rest->show(&doc.w, v);
    } else if (v) {
        shape_snake(&doc.w, v);
    } else { /* 204 */
        json_write_object(&doc.w);
        doc_text(&doc, "sandbox_id", cli_argument(cli, 0));
        doc_text(&doc, "status", "deleted");
        json_write_object_end(&doc.w);
    }
    return cli_object(cli, rest->title, &doc);
}

int rest_command(struct cli *cli)
{
    const struct rest *rest = find_rest(cli);
    struct osb_answer *answer = NULL;
    struct json_writer w;
    AUTO_BUF(path, PATH_BYTES_MAX);
    AUTO_BUF(body, DOC_BYTES_MAX);
    int r;

    if (!rest)
        return cli_error(cli, "Program", "'%s' has no row", cli->line.command->path);
    r = make_path(cli, rest->path, &path);
    if (r == 0 && rest->body) {
        json_write_begin(&w, &body);
        r = rest->body(cli, &w);
        if (r == 0 && json_write_end(&w) < 0)
            r = cli_error(cli, "File", "The request is too long.");
    }
    if (r == 0 && rest->egress)
        r = cli_connect(cli);
    if (r)
        return r;
    r = cli_request(cli,
                    &(struct osb_request){OSB_REQUEST, .method = rest->method, .path = path.p,
                                          .sandbox = rest->egress ? cli->sandbox : NULL,
                                          .port = rest->egress ? OSB_PORT_EGRESS : 0,
                                          .body = rest->body ? body.p : NULL, .body_bytes = body.n},
                    &answer);
    if (r == 0 && rest->done)
        r = cli_message(cli, "%s%s", rest->done, cli_argument(cli, rest->about));
    else if (r == 0)
        r = show_answer(cli, rest, answer);
    osb_answer_free(answer);
    return r;
}
