/* secrets.c - secretEnv: the server hands values over when it makes a sandbox, and gets the
 * placeholders that the sandbox has in their place. Values stay in locked memory. */
#include "egress/secrets.h"

#include <errno.h>

#include "api/secret.h"
#include "egress/egress.h"

enum { TREE_BYTES_MAX = 8 << 20, ANSWER_BYTES_MAX = 64 << 10 };

struct body {
    struct api_secrets secrets;
    const struct json *policy;
    struct str from;
};

static const struct json_field body_fields[] = {
    JSON_FIELD("secretEnv", JSON_AS_CUSTOM, JSON_NULLABLE, struct body, secrets,
               .parse = api_parse_secrets),
    JSON_FIELD("policy", JSON_AS_RAW, 0, struct body, policy),
    JSON_FIELD("from", JSON_AS_STR, 0, struct body, from),
};
static const struct json_table body_table = JSON_TABLE(struct body, body_fields, JSON_STRICT);

static int read_body(struct arena *a, struct str text, struct body *ret, struct err *e)
{
    struct json *tree;
    int r = json_parse(a, text, NULL, &tree, e);

    return r < 0 ? r : json_bind(a, tree, &body_table, ret, e);
}

static void reply_failure(struct http_req *req, int r, const struct err *e)
{
    AUTO_BUF(text, 512);

    (void)buf_addf(&text, "%s\n", e->msg);
    http_reply(req,
               r == -ENOENT   ? 404
               : r == -ENOMEM ? 503
                              : 400,
               STR("text/plain; charset=utf-8"), buf_str(&text));
}

/* --- rows of a vault --- */

struct rows {
    struct vault_secret_env at[API_SECRETS_MAX];
    char placeholders[API_SECRETS_MAX][VAULT_PLACEHOLDER_BYTES];
    size_t count;
};

static int rows_of_request(const struct api_secrets *s, struct rows *ret, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->count; i++) {
        if (!s->rows[i].value.p)
            return err_set(e, EINVAL, "%.*s: it has no value", STR_ARG(s->rows[i].name));
        r = vault_placeholder(ret->placeholders[i], e);
        ret->at[ret->count++] = (struct vault_secret_env){
            .name = s->rows[i].name,
            .value = s->rows[i].value,
            .placeholder = str_of(ret->placeholders[i]),
            .hosts = s->rows[i].hosts,
            .host_count = s->rows[i].hosts_count,
        };
    }
    return r;
}

/* The same placeholders: this sandbox has a copy of files that may hold them. */
static void rows_of_set(const struct vault_set *set, struct rows *ret)
{
    for (size_t i = 0; i < set->binding_count && ret->count < API_SECRETS_MAX; i++) {
        const struct vault_binding *b = &set->bindings[i];
        const struct vault_credential *c = b->env ? vault_set_credential(set, b->name) : NULL;

        if (c && b->substitution_count)
            ret->at[ret->count++] = (struct vault_secret_env){
                .name = vault_env_name(b),
                .value = c->value,
                .placeholder = b->substitutions[0].placeholder,
                .hosts = b->match.hosts.rows,
                .host_count = b->match.hosts.count,
            };
    }
}

static int add_rows(struct guarded *b, const struct rows *rows, struct err *e)
{
    struct vault_host host = catcher_vault_host(b);

    return rows->count ? vault_add_env(b->vault, rows->at, rows->count, &host, e) : 0;
}

static int copy_rows(struct guarded *b, struct str from, struct err *e)
{
    const struct guarded *source = guarded_find(b->egress, from);
    struct vault_set *set = source ? vault_current(source->vault) : NULL;
    struct rows rows = {0};
    int r;

    if (set && set->lost_count == 0)
        rows_of_set(set, &rows);
    r = rows.count ? add_rows(b, &rows, e)
                   : err_set(e, EINVAL, "the secrets of sandbox %.*s are lost", STR_ARG(from));
    vault_set_unref(set);
    return r;
}

static void reply_placeholders(struct http_req *req, struct guarded *b)
{
    struct vault_set *set = vault_current(b->vault);
    AUTO_BUF(out, ANSWER_BYTES_MAX);
    struct rows rows = {0};
    struct json_writer w;

    if (set)
        rows_of_set(set, &rows);
    json_write_begin(&w, &out);
    json_write_object(&w);
    for (size_t i = 0; i < rows.count; i++)
        json_member_string(&w, rows.at[i].name, rows.at[i].placeholder);
    for (size_t i = 0; set && i < set->lost_count; i++) /* its requests are refused with a reason */
        if (set->lost[i].name.n && !str_eq(set->lost[i].name, STR(VAULT_LOST_ANY)))
            json_member_string(&w, set->lost[i].name, set->lost[i].placeholder);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        http_reply(req, 500, STR_NONE, STR_NONE);
    else
        http_reply(req, 200, STR("application/json"), buf_str(&out));
    vault_set_unref(set);
}

/* --- routes --- */

static int put_secrets(struct guarded *b, struct str text, struct err *e)
{
    struct rows rows = {0};
    struct body body = {0};
    struct arena a;
    int r;

    arena_init(&a, TREE_BYTES_MAX);
    r = read_body(&a, text, &body, e);
    if (r == 0 && body.from.n)
        r = copy_rows(b, body.from, e);
    if (r == 0)
        r = rows_of_request(&body.secrets, &rows, e);
    if (r == 0)
        r = add_rows(b, &rows, e);
    arena_wipe(&a);
    return r;
}

static void put_act(struct http_req *req, struct str text, void *user UNUSED)
{
    struct egress *g = req->server_user;
    struct guarded *b = NULL;
    struct err e = {0};
    int r = guarded_open(g, http_req_param(req, "id"), &b, &e);

    if (r >= 0 && !b->intercept)
        r = err_set(&e, EINVAL, "the sandbox has no credential proxy");
    if (r >= 0)
        r = catcher_attach(b, &e);
    if (r >= 0)
        r = put_secrets(b, text, &e);
    if (r < 0)
        reply_failure(req, r, &e);
    else
        reply_placeholders(req, b);
}

void secrets_handle_put(struct http_req *req)
{
    vault_collect(req, put_act, NULL);
}

struct policies {
    const struct policy *always, *policy;
};

static int host_allowed_by(void *user, struct str host)
{
    const struct policies *p = user;

    return policy_allows_explicitly(p->always, p->policy, host);
}

static int check_all(const struct egress *g, const struct body *body, struct err *e)
{
    AUTO_BUF(text, POLICY_TEXT_BYTES_MAX);
    auto_policy *policy = NULL;
    struct policies both = {.always = g->always};
    struct vault_host host = {.host_allowed = host_allowed_by, .user = &both};
    struct rows rows = {0};
    struct vault *vault;
    struct json_writer w;
    int r;

    if (!body->policy)
        return err_set(e, EINVAL, "there is no policy");
    json_write_begin(&w, &text);
    json_write_value(&w, body->policy);
    r = json_write_end(&w);
    if (r == 0)
        r = policy_parse(buf_str(&text), &policy, e);
    if (r == 0)
        r = rows_of_request(&body->secrets, &rows, e);
    if (r < 0)
        return r;
    both.policy = policy;
    vault = vault_new();
    r = vault_add_env(vault, rows.at, rows.count, &host, e);
    vault_free(vault);
    return r;
}

static void check_act(struct http_req *req, struct str text, void *user UNUSED)
{
    struct body body = {0};
    struct err e = {0};
    struct arena a;
    int r;

    arena_init(&a, TREE_BYTES_MAX);
    r = read_body(&a, text, &body, &e);
    if (r == 0)
        r = check_all(req->server_user, &body, &e);
    arena_wipe(&a);
    if (r < 0)
        reply_failure(req, r, &e);
    else
        http_reply(req, 204, STR_NONE, STR_NONE);
}

void secrets_handle_check(struct http_req *req)
{
    vault_collect(req, check_act, NULL);
}
