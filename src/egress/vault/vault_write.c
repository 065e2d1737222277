/* vault_write.c - a vault as clients see it, and parts of its file. No function here reads a
 * value. */
#include "egress/vault/vault_set.h"

static const struct str auth_names[] = {
    [VAULT_BEARER] = STR_INIT("bearer"),
    [VAULT_BASIC] = STR_INIT("basic"),
    [VAULT_API_KEY] = STR_INIT("apiKey"),
    [VAULT_CUSTOM_HEADERS] = STR_INIT("customHeaders"),
    [VAULT_PASSTHROUGH] = STR_INIT("passthrough"),
};

static void write_list(struct json_writer *w, struct str key, const struct vault_list *list)
{
    json_write_key(w, key);
    json_write_array(w);
    for (size_t i = 0; i < list->count; i++)
        json_write_string(w, list->rows[i]);
    json_write_array_end(w);
}

static void write_match(struct json_writer *w, const struct vault_match *m)
{
    json_write_object(w);
    write_list(w, STR("schemes"), &m->schemes);
    json_write_key(w, STR("ports"));
    json_write_array(w);
    for (size_t i = 0; i < m->port_count; i++)
        json_write_u64(w, m->ports[i]);
    json_write_array_end(w);
    write_list(w, STR("hosts"), &m->hosts);
    write_list(w, STR("methods"), &m->methods);
    write_list(w, STR("paths"), &m->paths);
    json_write_object_end(w);
}

struct str vault_auth_name(enum vault_auth auth)
{
    return auth_names[auth];
}

void vault_write_match(struct json_writer *w, const struct vault_match *m)
{
    json_write_key(w, STR("match"));
    write_match(w, m);
}

void vault_write_substitution(struct json_writer *w, const struct vault_substitution *sub)
{
    static const struct {
        struct str name;
        unsigned bit;
    } surfaces[] = {
        {STR_INIT("path"),   VAULT_IN_PATH  },
        {STR_INIT("query"),  VAULT_IN_QUERY },
        {STR_INIT("header"), VAULT_IN_HEADER},
        {STR_INIT("body"),   VAULT_IN_BODY  },
    };

    json_write_object(w);
    json_member_string(w, STR("credential"), sub->credential);
    json_member_string(w, STR("placeholder"), sub->placeholder);
    json_write_key(w, STR("in"));
    json_write_array(w);
    for (size_t i = 0; i < ARRAY_LEN(surfaces); i++)
        if (sub->in & surfaces[i].bit)
            json_write_string(w, surfaces[i].name);
    json_write_array_end(w);
    json_write_object_end(w);
}

void vault_write_credential(struct json_writer *w, const struct vault_credential *c)
{
    json_write_object(w);
    json_member_string(w, STR("name"), c->name);
    json_member_string(w, STR("sourceType"), STR("inline"));
    json_member_u64(w, STR("revision"), c->revision);
    json_write_object_end(w);
}

void vault_write_binding(struct json_writer *w, const struct vault_set *s,
                         const struct vault_binding *b)
{
    json_write_object(w);
    json_member_string(w, STR("name"), b->name);
    json_member_u64(w, STR("revision"), s->revision);
    vault_write_match(w, &b->match);
    json_write_key(w, STR("auth"));
    json_write_object(w);
    json_member_string(w, STR("type"), auth_names[b->auth]);
    if (b->auth == VAULT_API_KEY)
        json_member_string(w, STR("name"), b->headers[0].name);
    json_write_object_end(w);
    json_write_object_end(w);
}

static void write_credential_list(struct json_writer *w, const struct vault_set *s)
{
    json_write_key(w, STR("credentials"));
    json_write_array(w);
    for (size_t i = 0; i < s->credential_count; i++)
        if (!s->credentials[i].env)
            vault_write_credential(w, &s->credentials[i]);
    json_write_array_end(w);
}

static void write_binding_list(struct json_writer *w, const struct vault_set *s)
{
    json_write_key(w, STR("bindings"));
    json_write_array(w);
    for (size_t i = 0; i < s->binding_count; i++)
        if (!s->bindings[i].env)
            vault_write_binding(w, s, &s->bindings[i]);
    json_write_array_end(w);
}

static void write_parts(struct json_writer *w, const struct vault_set *s, bool credentials,
                        bool bindings)
{
    json_write_object(w);
    json_member_u64(w, STR("revision"), s->revision);
    if (credentials)
        write_credential_list(w, s);
    if (bindings)
        write_binding_list(w, s);
    json_write_object_end(w);
}

void vault_write_state(struct json_writer *w, const struct vault_set *s)
{
    write_parts(w, s, true, true);
}

void vault_write_credentials(struct json_writer *w, const struct vault_set *s)
{
    write_parts(w, s, true, false);
}

void vault_write_bindings(struct json_writer *w, const struct vault_set *s)
{
    write_parts(w, s, false, true);
}
