/* vault.c - the credential vault of a sandbox. Bodies hold secrets, and are overwritten. */
#include "sdk.h"

#define VAULT "/credential-vault"

static int call(struct osb_sandbox *sb, enum http_method method, struct target *t,
                const struct buf *body, int body_error, struct osb_answer **ret)
{
    struct simple s = {NULL, method, t, body, body_error};
    int r = sandbox_site(sb, OSB_PORT_EGRESS, &s.site);

    return r < 0 ? r : simple_call(sb->client, &s, ret);
}

/* --- bodies --- */

static void write_strings(struct json_writer *w, const char *key, const char *const *list)
{
    if (!list)
        return;
    json_write_key(w, str_of(key));
    json_write_array(w);
    for (size_t i = 0; list[i]; i++)
        json_write_string(w, str_of(list[i]));
    json_write_array_end(w);
}

static void write_text(struct json_writer *w, const char *key, const char *text)
{
    if (text)
        json_member_string(w, str_of(key), str_of(text));
}

static void write_credentials(struct json_writer *w, const char *key,
                              const struct osb_credential *rows, size_t count)
{
    json_write_key(w, str_of(key));
    json_write_array(w);
    for (size_t i = 0; i < count; i++) {
        json_write_object(w);
        json_member_string(w, STR("name"), str_or_empty(rows[i].name));
        json_write_key(w, STR("source"));
        json_write_object(w);
        json_member_string(w, STR("value"), str_or_empty(rows[i].value));
        json_write_object_end(w);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void write_auth(struct json_writer *w, const struct osb_binding *b)
{
    json_write_key(w, STR("auth"));
    json_write_object(w);
    json_member_string(w, STR("type"), str_or_empty(b->type));
    write_text(w, "credential", b->credential);
    write_text(w, "name", b->header);
    if (b->headers) {
        json_write_key(w, STR("headers"));
        json_write_array(w);
        for (size_t i = 0; i < b->header_count; i++) {
            json_write_object(w);
            json_member_string(w, STR("name"), str_or_empty(b->headers[i].name));
            json_member_string(w, STR("credential"), str_or_empty(b->headers[i].value));
            json_write_object_end(w);
        }
        json_write_array_end(w);
    }
    json_write_object_end(w);
}

static void write_bindings(struct json_writer *w, const char *key, const struct osb_binding *rows,
                           size_t count)
{
    json_write_key(w, str_of(key));
    json_write_array(w);
    for (size_t i = 0; i < count; i++) {
        const struct osb_binding *b = &rows[i];

        json_write_object(w);
        json_member_string(w, STR("name"), str_or_empty(b->name));
        json_write_key(w, STR("match"));
        json_write_object(w);
        write_strings(w, "hosts", b->hosts);
        write_strings(w, "schemes", b->schemes);
        write_strings(w, "methods", b->methods);
        write_strings(w, "paths", b->paths);
        json_write_object_end(w);
        write_auth(w, b);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

/* --- calls --- */

int osb_vault_create(struct osb_sandbox *sandbox, const struct osb_credential *credentials,
                     size_t credential_count, const struct osb_binding *bindings,
                     size_t binding_count, struct osb_answer **ret_answer)
{
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct json_writer w;
    struct target t;

    buf_keep_secret(&body);
    json_write_begin(&w, &body);
    json_write_object(&w);
    write_credentials(&w, "credentials", credentials, credential_count);
    write_bindings(&w, "bindings", bindings, binding_count);
    json_write_object_end(&w);
    target_init(&t, VAULT);
    return call(sandbox, HTTP_POST, &t, &body, json_write_end(&w), ret_answer);
}

int osb_vault_get(struct osb_sandbox *sandbox, struct osb_answer **ret_answer)
{
    struct target t;

    target_init(&t, VAULT);
    return call(sandbox, HTTP_GET, &t, NULL, 0, ret_answer);
}

int osb_vault_patch(struct osb_sandbox *sandbox, const struct osb_vault_change *change,
                    struct osb_answer **ret_answer)
{
    OPTIONS_COPY(struct osb_vault_change, o, change);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct json_writer w;
    struct target t;

    buf_keep_secret(&body);
    json_write_begin(&w, &body);
    json_write_object(&w);
    if (o.expected_revision)
        json_member_i64(&w, STR("expectedRevision"), o.expected_revision);
    json_write_key(&w, STR("credentials"));
    json_write_object(&w);
    write_credentials(&w, "add", o.add_credentials, o.add_credential_count);
    write_credentials(&w, "replace", o.replace_credentials, o.replace_credential_count);
    write_strings(&w, "delete", o.delete_credentials);
    json_write_object_end(&w);
    json_write_key(&w, STR("bindings"));
    json_write_object(&w);
    write_bindings(&w, "add", o.add_bindings, o.add_binding_count);
    write_bindings(&w, "replace", o.replace_bindings, o.replace_binding_count);
    write_strings(&w, "delete", o.delete_bindings);
    json_write_object_end(&w);
    json_write_object_end(&w);
    target_init(&t, VAULT);
    return call(sandbox, HTTP_PATCH, &t, &body, json_write_end(&w), ret_answer);
}

int osb_vault_delete(struct osb_sandbox *sandbox)
{
    struct target t;

    target_init(&t, VAULT);
    return call(sandbox, HTTP_DELETE, &t, NULL, 0, NULL);
}

int osb_vault_get_credential(struct osb_sandbox *sandbox, const char *name,
                             struct osb_answer **ret_answer)
{
    struct target t;

    target_init(&t, VAULT "/credentials/");
    target_segment(&t, name);
    return call(sandbox, HTTP_GET, &t, NULL, 0, ret_answer);
}

int osb_vault_get_binding(struct osb_sandbox *sandbox, const char *name,
                          struct osb_answer **ret_answer)
{
    struct target t;

    target_init(&t, VAULT "/bindings/");
    target_segment(&t, name);
    return call(sandbox, HTTP_GET, &t, NULL, 0, ret_answer);
}
