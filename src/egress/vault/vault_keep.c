#include "egress/vault/vault_keep.h"

#include <errno.h>

#include "base/mem.h"
#include "egress/vault/vault_read.h"

enum {
    HEAD_BYTES_MAX = 2 << 20,
    VALUES_BYTES_MAX = 20 << 20,
    TREE_BYTES_MAX = 64 << 20,
    LABEL_BYTES_MAX = HEAD_BYTES_MAX + 1024,
};

/* --- writing --- */

static void write_list(struct json_writer *w, const char *key, const struct vault_list *list)
{
    json_write_key(w, str_of(key));
    json_write_array(w);
    for (size_t i = 0; i < list->count; i++)
        json_write_string(w, list->rows[i]);
    json_write_array_end(w);
}

static void write_placeholder(struct json_writer *w, struct str name, struct str placeholder,
                              const struct vault_list *hosts)
{
    json_write_object(w);
    json_member_string(w, STR("name"), name);
    json_member_string(w, STR("placeholder"), placeholder);
    write_list(w, "hosts", hosts);
    json_write_object_end(w);
}

/* Those with (env) or without the name of a variable. Returns how many there are now. */
static size_t write_placeholders(struct json_writer *w, const struct vault_set *s, bool env,
                                 size_t n)
{
    for (size_t i = 0; i < s->binding_count; i++) {
        const struct vault_binding *b = &s->bindings[i];
        struct str name = env ? vault_env_name(b) : STR("");

        for (size_t j = 0; b->env == env && j < b->substitution_count && n < VAULT_LOST_MAX; j++) {
            struct str placeholder = b->substitutions[j].placeholder;

            /* A short one would be found by chance. */
            if (!env && placeholder.n < VAULT_BODY_SECRET_MIN)
                continue;
            write_placeholder(w, name, placeholder, &b->match.hosts);
            n++;
        }
    }
    return n;
}

static void write_lost(struct json_writer *w, const struct vault_set *s, size_t n)
{
    for (size_t i = 0; i < s->lost_count && n + i < VAULT_LOST_MAX; i++)
        write_placeholder(w, s->lost[i].name, s->lost[i].placeholder, &s->lost[i].hosts);
}

static int write_head(const struct vault_set *s, bool sealed, struct buf *out)
{
    struct json_writer w;
    size_t n;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_u64(&w, STR("version"), VAULT_KEPT_VERSION);
    json_member_bool(&w, STR("sealed"), sealed);
    json_member_bool(&w, STR("created"), s->created || s->lost_created);
    json_member_u64(&w, STR("revision"), s->revision);
    json_write_key(&w, STR("lost"));
    json_write_array(&w);
    n = write_placeholders(&w, s, true, 0);
    n = write_placeholders(&w, s, false, n);
    write_lost(&w, s, n);
    json_write_array_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w);
}

static void write_binding(struct json_writer *w, const struct vault_binding *b)
{
    bool many = b->auth == VAULT_CUSTOM_HEADERS;

    json_write_object(w);
    json_member_string(w, STR("name"), b->name);
    json_member_bool(w, STR("env"), b->env);
    vault_write_match(w, &b->match);
    json_write_key(w, STR("auth"));
    json_write_object(w);
    json_member_string(w, STR("type"), vault_auth_name(b->auth));
    if (!many && b->header_count)
        json_member_string(w, STR("credential"), b->headers[0].credential);
    if (b->auth == VAULT_API_KEY)
        json_member_string(w, STR("name"), b->headers[0].name);
    json_write_key(w, STR("headers"));
    json_write_array(w);
    for (size_t i = 0; many && i < b->header_count; i++) {
        json_write_object(w);
        json_member_string(w, STR("name"), b->headers[i].name);
        json_member_string(w, STR("credential"), b->headers[i].credential);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    json_write_key(w, STR("substitutions"));
    json_write_array(w);
    for (size_t i = 0; i < b->substitution_count; i++)
        vault_write_substitution(w, &b->substitutions[i]);
    json_write_array_end(w);
    json_write_object_end(w);
    json_write_object_end(w);
}

/* The only function that writes values: into memory that is overwritten. */
static int write_values(const struct vault_set *s, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_bool(&w, STR("created"), s->created);
    json_member_bool(&w, STR("lostCreated"), s->lost_created);
    json_member_u64(&w, STR("revision"), s->revision);
    json_write_key(&w, STR("credentials"));
    json_write_array(&w);
    for (size_t i = 0; i < s->credential_count; i++) {
        const struct vault_credential *c = &s->credentials[i];

        json_write_object(&w);
        json_member_string(&w, STR("name"), c->name);
        json_member_string(&w, STR("value"), c->value);
        json_member_u64(&w, STR("revision"), c->revision);
        json_member_bool(&w, STR("env"), c->env);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_key(&w, STR("bindings"));
    json_write_array(&w);
    for (size_t i = 0; i < s->binding_count; i++)
        write_binding(&w, &s->bindings[i]);
    json_write_array_end(&w);
    json_write_key(&w, STR("lost"));
    json_write_array(&w);
    write_lost(&w, s, 0);
    json_write_array_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w);
}

/* What the sealed bytes belong to. */
static int write_label(struct str id, struct str head, struct buf *out)
{
    return buf_addf(out, "vault of sandbox %.*s\n%.*s", STR_ARG(id), STR_ARG(head));
}

static int seal(const struct vault_set *s, const unsigned char *key, struct str id, struct buf *out)
{
    AUTO_BUF(label, LABEL_BYTES_MAX);
    AUTO_BUF(values, VALUES_BYTES_MAX);
    int r;

    buf_keep_secret(&values);
    r = write_label(id, str_make(out->p, out->n - 1), &label);
    if (r == 0)
        r = write_values(s, &values);
    return r < 0 ? r : aead_close(key, buf_str(&label), buf_str(&values), out);
}

int vault_keep_write(const struct vault_set *s, const unsigned char *key, struct str id,
                     struct buf *out, struct err *e)
{
    int r = write_head(s, key != NULL, out);

    if (r == 0)
        r = buf_add_char(out, '\n');
    if (r == 0 && key)
        r = seal(s, key, id, out);
    return r < 0 ? err_sys(e, -r, "write the credential vault") : 0;
}

/* --- reading --- */

/* any: whatever looks like a placeholder of an environment, since the first line proves nothing. */
static int lose(struct vault *v, const struct vault_kept_head *head, bool any, struct err *e)
{
    static const struct vault_lost all = {.name = STR_INIT(VAULT_LOST_ANY),
                                          .placeholder = STR_INIT(VAULT_PLACEHOLDER_PREFIX)};
    struct vault_set *s = vault_set_new();
    int r = s ? 0 : -ENOMEM;

    if (r == 0 && any)
        r = vault_set_add_lost(s, &all);

    for (size_t i = 0; r == 0 && i < head->lost_count && s->lost_count < VAULT_LOST_MAX; i++)
        r = vault_set_add_lost(s, &(struct vault_lost){
                                      .name = head->lost[i].name,
                                      .placeholder = head->lost[i].placeholder,
                                      .hosts = {head->lost[i].hosts, head->lost[i].hosts_count},
        });
    if (r < 0) {
        vault_set_unref(s);
        return err_set(e, -r, "no locked memory for the credential vault (RLIMIT_MEMLOCK)");
    }
    s->lost_created = head->created;
    return vault_adopt(v, s, e);
}

static int open_values(const unsigned char *key, struct str id, struct str head, struct str sealed,
                       struct buf *out, struct err *e)
{
    AUTO_BUF(label, LABEL_BYTES_MAX);
    int r;

    if (!key)
        return err_set(e, ENOKEY, "egress.vault_on_restart is not \"sealed\"");
    if (sealed.n == 0)
        return err_set(e, ENODATA, "its values were not stored");
    r = write_label(id, head, &label);
    if (r == 0)
        r = aead_open(key, buf_str(&label), sealed, out);
    return r < 0 ? err_set(e, -r, "it is damaged, or sealed by another key or for another sandbox")
                 : 0;
}

static int take_values(struct vault_set *s, const struct vault_kept_values *in, struct err *e)
{
    int r = 0;

    s->created = in->created;
    s->lost_created = in->lost_created;
    s->revision = in->revision;
    for (size_t i = 0; r == 0 && i < in->credentials_count; i++) {
        struct vault_credential *c = &s->credentials[s->credential_count];

        r = vault_take_credential(s, &in->credentials[i].in, c, e);
        c->revision = in->credentials[i].revision;
        c->env = in->credentials[i].env;
        s->credential_count += r == 0;
    }
    for (size_t i = 0; r == 0 && i < in->bindings_count; i++) {
        r = vault_take_binding(s, &in->bindings[i].in, &s->bindings[s->binding_count], e);
        s->bindings[s->binding_count].env = in->bindings[i].env;
        s->binding_count += r == 0;
    }
    for (size_t i = 0; r == 0 && i < in->lost_count; i++)
        r = vault_set_add_lost(s, &(struct vault_lost){
                                      .name = in->lost[i].name,
                                      .placeholder = in->lost[i].placeholder,
                                      .hosts = {in->lost[i].hosts, in->lost[i].hosts_count},
        });
    return r;
}

static int restore(struct vault *v, struct str text, struct err *e)
{
    struct vault_kept_values in = {0};
    struct vault_set *s = NULL;
    struct arena a;
    int r;

    arena_init(&a, TREE_BYTES_MAX);
    r = vault_read_kept_values(&a, text, &in, e);
    if (r == 0) {
        s = vault_set_new();
        r = s ? take_values(s, &in, e)
              : err_set(e, ENOMEM, "no locked memory for the credential vault (RLIMIT_MEMLOCK)");
    }
    if (r == 0)
        r = vault_adopt(v, s, e);
    else
        vault_set_unref(s);
    arena_wipe(&a);
    return r;
}

int vault_keep_read(struct vault *v, const unsigned char *key, struct str id, struct str file,
                    struct err *e)
{
    struct vault_kept_head head = {0};
    AUTO_ARENA(a, TREE_BYTES_MAX);
    AUTO_BUF(values, VALUES_BYTES_MAX);
    size_t end = str_find(file, '\n');
    struct str line = str_make(file.p, end), sealed;
    struct err memory = {0};
    int r = -EBADMSG;

    buf_keep_secret(&values);
    if (end < file.n && vault_read_kept_head(&a, line, &head, NULL) == 0) {
        sealed = str_skip(file, end + 1);
        r = open_values(key, id, line, sealed, &values, e);
        if (r == 0)
            r = restore(v, buf_str(&values), e);
        if (r == 0)
            return VAULT_KEPT;
    } else {
        (void)err_set(e, EBADMSG, "its file cannot be read");
        head = (struct vault_kept_head){.created = true};
    }
    r = lose(v, &head, r == -EBADMSG, &memory);
    if (r < 0)
        *e = memory;
    return r < 0 ? r : VAULT_LOST;
}
