#include "egress/vault/vault.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/mem.h"
#include "egress/vault/vault_read.h"

enum { READ_BYTES_MAX = 8 << 20 };

struct vault {
    struct vault_set *set; /* NULL: nothing is in it */
};

struct vault *vault_new(void)
{
    return mem_new(struct vault);
}

void vault_free(struct vault *v)
{
    if (!v)
        return;
    vault_set_unref(v->set);
    free(v);
}

struct vault_set *vault_current(struct vault *v)
{
    return v && v->set ? vault_set_ref(v->set) : NULL;
}

bool vault_exists(const struct vault *v)
{
    return v->set && v->set->created;
}

bool vault_is_lost(const struct vault *v)
{
    return v->set && v->set->lost_created;
}

uint64_t vault_revision(const struct vault *v)
{
    return v->set ? v->set->revision : 0;
}

static void vault_swap(struct vault *v, struct vault_set *set)
{
    vault_set_unref(v->set);
    v->set = set;
}

/* --- the policy --- */

static int check_hosts(const struct vault_set *s, const struct vault_host *h, struct err *e)
{
    for (size_t i = 0; h->host_allowed && i < s->binding_count; i++) {
        const struct vault_binding *b = &s->bindings[i];

        for (size_t j = 0; j < b->match.hosts.count; j++) {
            struct str host = b->match.hosts.rows[j];

            if (h->host_allowed(h->user, host) != 1)
                return err_set(e, EINVAL,
                               "binding \"%.*s\": no rule of the network policy allows host "
                               "\"%.*s\" explicitly",
                               STR_ARG(b->name), STR_ARG(host));
        }
    }
    return 0;
}

int vault_policy_check(const struct vault *v, const struct vault_host *h, struct err *e)
{
    int r = v->set ? check_hosts(v->set, h, e) : 0;

    return r < 0 ? err_wrap(e, r, "credential vault policy validation") : 0;
}

/* --- parts of a new set --- */

static struct str trimmed(struct str s)
{
    while (s.n && (unsigned char)s.p[0] <= ' ')
        s = str_skip(s, 1);
    while (s.n && (unsigned char)s.p[s.n - 1] <= ' ')
        s.n--;
    return s;
}

static bool names_have(const struct str *names, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(trimmed(names[i]), name))
            return true;
    return false;
}

static int add_credential(struct vault_set *s, const struct vault_in_credential *in, struct err *e)
{
    struct vault_credential c = {.revision = s->revision};
    int r;

    if (s->credential_count == VAULT_CREDENTIALS_MAX)
        return err_set(e, EINVAL, "more than %d credentials", VAULT_CREDENTIALS_MAX);
    r = vault_take_credential(s, in, &c, e);
    if (r < 0)
        return r;
    if (vault_set_credential(s, c.name))
        return err_set(e, EINVAL, "credential \"%.*s\" exists already, or is given twice",
                       STR_ARG(c.name));
    s->credentials[s->credential_count++] = c;
    return 0;
}

static int add_binding(struct vault_set *s, const struct vault_in_binding *in, struct err *e)
{
    struct vault_binding b = {0};
    int r;

    if (s->binding_count == VAULT_BINDINGS_MAX)
        return err_set(e, EINVAL, "more than %d bindings", VAULT_BINDINGS_MAX);
    r = vault_take_binding(s, in, &b, e);
    if (r < 0)
        return r;
    if (vault_set_binding(s, b.name))
        return err_set(e, EINVAL, "binding \"%.*s\" exists already, or is given twice",
                       STR_ARG(b.name));
    s->bindings[s->binding_count++] = b;
    return 0;
}

static int add_all(struct vault_set *s, const struct vault_in *in, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < in->credentials.add_count; i++)
        r = add_credential(s, &in->credentials.add[i], e);
    for (size_t i = 0; r == 0 && i < in->bindings.add_count; i++)
        r = add_binding(s, &in->bindings.add[i], e);
    return r;
}

/* --- a patch: the old set without what is deleted or replaced, then the rest --- */

/* The names that one list of operations touches, each once. */
struct touched {
    const char *what;
    struct str names[3 * VAULT_BINDINGS_MAX];
    size_t count;
};
static_assert(VAULT_BINDINGS_MAX >= VAULT_CREDENTIALS_MAX, "one array serves both");

static int touch(struct touched *t, struct str name, struct err *e)
{
    name = trimmed(name);
    if (names_have(t->names, t->count, name))
        return err_set(e, EINVAL, "%s \"%.*s\" is named in two operations", t->what,
                       (int)min_size(name.n, VAULT_NAME_BYTES_MAX), name.p);
    t->names[t->count++] = name;
    return 0;
}

static int unknown(const char *what, struct str name, struct err *e)
{
    name = trimmed(name);
    return err_set(e, EINVAL, "there is no %s \"%.*s\"", what,
                   (int)min_size(name.n, VAULT_NAME_BYTES_MAX), name.p);
}

static const struct vault_credential *user_credential(const struct vault_set *s, struct str name)
{
    const struct vault_credential *c = vault_set_credential(s, trimmed(name));

    return c && !c->env ? c : NULL;
}

static const struct vault_binding *user_binding(const struct vault_set *s, struct str name)
{
    const struct vault_binding *b = vault_set_binding(s, trimmed(name));

    return b && !b->env ? b : NULL;
}

static int check_credentials(const struct vault_set *old, const struct vault_in_credentials *in,
                             struct touched *t, struct err *e)
{
    int r = 0;

    t->what = "credential";
    t->count = 0;
    for (size_t i = 0; r == 0 && i < in->delete_count; i++)
        r = user_credential(old, in->delete[i]) ? touch(t, in->delete[i], e)
                                                : unknown(t->what, in->delete[i], e);
    for (size_t i = 0; r == 0 && i < in->replace_count; i++)
        r = user_credential(old, in->replace[i].name) ? touch(t, in->replace[i].name, e)
                                                      : unknown(t->what, in->replace[i].name, e);
    for (size_t i = 0; r == 0 && i < in->add_count; i++)
        r = touch(t, in->add[i].name, e);
    return r;
}

static int check_bindings(const struct vault_set *old, const struct vault_in_bindings *in,
                          struct touched *t, struct err *e)
{
    int r = 0;

    t->what = "binding";
    t->count = 0;
    for (size_t i = 0; r == 0 && i < in->delete_count; i++)
        r = user_binding(old, in->delete[i]) ? touch(t, in->delete[i], e)
                                             : unknown(t->what, in->delete[i], e);
    for (size_t i = 0; r == 0 && i < in->replace_count; i++)
        r = user_binding(old, in->replace[i].name) ? touch(t, in->replace[i].name, e)
                                                   : unknown(t->what, in->replace[i].name, e);
    for (size_t i = 0; r == 0 && i < in->add_count; i++)
        r = touch(t, in->add[i].name, e);
    return r;
}

/* Whether an operation removes or replaces it. */
static bool credential_goes(const struct vault_in_credentials *in, struct str name)
{
    for (size_t i = 0; i < in->replace_count; i++)
        if (str_eq(trimmed(in->replace[i].name), name))
            return true;
    return names_have(in->delete, in->delete_count, name);
}

static bool binding_goes(const struct vault_in_bindings *in, struct str name)
{
    for (size_t i = 0; i < in->replace_count; i++)
        if (str_eq(trimmed(in->replace[i].name), name))
            return true;
    return names_have(in->delete, in->delete_count, name);
}

/* What is lost stays so: secrets of the environment always, others until there is a new vault. */
static int keep_lost(struct vault_set *s, const struct vault_set *old, bool all)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < old->lost_count; i++)
        if (all || old->lost[i].name.n)
            r = vault_set_add_lost(s, &old->lost[i]);
    s->lost_created = all && old->lost_created;
    return r;
}

/* Copies secrets of the environment, and with `in` all others that it does not remove. */
static int keep_rest(struct vault_set *s, const struct vault_set *old, const struct vault_in *in,
                     struct err *e)
{
    if (keep_lost(s, old, in != NULL) < 0)
        return err_set(e, ENOMEM, "no locked memory for the credential vault");
    for (size_t i = 0; i < old->credential_count; i++) {
        const struct vault_credential *c = &old->credentials[i];
        struct vault_credential kept = {.revision = c->revision, .env = c->env};

        if (!c->env && (!in || credential_goes(&in->credentials, c->name)))
            continue;
        kept.name = secret_str(&s->memory, c->name);
        kept.value = secret_str(&s->memory, c->value);
        if (!kept.name.p || !kept.value.p)
            return err_set(e, ENOMEM, "no locked memory for the credential vault");
        s->credentials[s->credential_count++] = kept;
    }
    for (size_t i = 0; i < old->binding_count; i++) {
        const struct vault_binding *b = &old->bindings[i];

        if (!b->env && (!in || binding_goes(&in->bindings, b->name)))
            continue;
        if (vault_binding_copy(s, b, &s->bindings[s->binding_count]) < 0)
            return err_set(e, ENOMEM, "no locked memory for the credential vault");
        s->binding_count++;
    }
    return 0;
}

static int patch_into(struct vault_set *s, const struct vault_set *old, const struct vault_in *in,
                      struct err *e)
{
    auto_free struct touched *t = mem_new(struct touched);
    int r = check_credentials(old, &in->credentials, t, e);

    if (r == 0)
        r = check_bindings(old, &in->bindings, t, e);
    if (r == 0)
        r = keep_rest(s, old, in, e);
    for (size_t i = 0; r == 0 && i < in->credentials.replace_count; i++)
        r = add_credential(s, &in->credentials.replace[i], e);
    for (size_t i = 0; r == 0 && i < in->bindings.replace_count; i++)
        r = add_binding(s, &in->bindings.replace[i], e);
    return r < 0 ? r : add_all(s, in, e);
}

/* --- changes --- */

/* An empty set of the next revision of the API. */
static struct vault_set *next_set(const struct vault *v, struct err *e)
{
    struct vault_set *s = vault_set_new();

    if (s) {
        s->created = true;
        s->revision = vault_revision(v) + 1;
    } else {
        (void)err_set(e, ENOMEM, "no locked memory for the credential vault (RLIMIT_MEMLOCK)");
    }
    return s;
}

/* Ends a change: checks the whole, then swaps it in, or drops it. */
static int settle(struct vault *v, struct vault_set *s, int r, const struct vault_host *h,
                  struct err *e)
{
    if (r == 0)
        r = vault_set_finish(s, e);
    if (r == 0)
        r = check_hosts(s, h, e);
    if (r == 0 && h->store)
        r = h->store(h->user, s, e);
    if (r == 0)
        vault_swap(v, s);
    else
        vault_set_unref(s);
    return r;
}

int vault_create(struct vault *v, struct str json, const struct vault_host *h, struct err *e)
{
    struct vault_set *s;
    struct vault_in in;
    struct arena a;
    int r;

    arena_init(&a, READ_BYTES_MAX);
    r = vault_read_create(&a, json, &in, e);
    if (r == 0 && vault_exists(v))
        r = err_set(e, EEXIST, "credential vault already exists");
    if (r == 0) {
        s = next_set(v, e);
        r = s ? 0 : -ENOMEM;
    }
    if (r == 0) {
        r = v->set ? keep_rest(s, v->set, NULL, e) : 0;
        r = settle(v, s, r < 0 ? r : add_all(s, &in, e), h, e);
    }
    arena_wipe(&a);
    return r;
}

int vault_patch(struct vault *v, struct str json, const struct vault_host *h, struct err *e)
{
    struct vault_set *s = NULL;
    struct vault_in in;
    struct arena a;
    int r;

    arena_init(&a, READ_BYTES_MAX);
    r = vault_read_patch(&a, json, &in, e);
    if (r == 0 && !vault_exists(v))
        r = err_set(e, ENOENT, "credential vault not found");
    if (r == 0 && in.has_expected_revision && in.expected_revision != (int64_t)v->set->revision)
        r = err_set(e, ESTALE, "expectedRevision %lld does not match the current revision %llu",
                    (long long)in.expected_revision, (unsigned long long)v->set->revision);
    if (r == 0) {
        s = next_set(v, e);
        r = s ? settle(v, s, patch_into(s, v->set, &in, e), h, e) : -ENOMEM;
    }
    arena_wipe(&a);
    return r;
}

static bool has_env(const struct vault_set *s)
{
    for (size_t i = 0; i < s->binding_count; i++)
        if (s->bindings[i].env)
            return true;
    for (size_t i = 0; i < s->lost_count; i++)
        if (s->lost[i].name.n)
            return true;
    return false;
}

int vault_delete(struct vault *v, const struct vault_host *h, struct err *e)
{
    const struct vault_host any_host = {.store = h->store, .user = h->user};
    struct vault_set *s;
    int r = 0;

    if (!vault_exists(v) && !vault_is_lost(v))
        return err_set(e, ENOENT, "credential vault not found");
    if (!has_env(v->set)) {
        if (h->store)
            r = h->store(h->user, NULL, e);
        if (r == 0)
            vault_swap(v, NULL);
        return r;
    }
    s = next_set(v, e);
    if (!s)
        return -ENOMEM;
    s->created = false;
    s->revision = 0;
    return settle(v, s, keep_rest(s, v->set, NULL, e), &any_host, e);
}

/* --- secrets of the environment --- */

#define ENV_PREFIX "env/"

struct str vault_env_name(const struct vault_binding *b)
{
    return str_skip(b->name, STR(ENV_PREFIX).n);
}

static int add_env(struct vault_set *s, const struct vault_secret_env *row, struct err *e)
{
    struct str surfaces[] = {STR("path"), STR("query"), STR("header"), STR("body")};
    struct str schemes[] = {STR("https")};
    char name[VAULT_NAME_BYTES_MAX + 1];
    struct vault_in_substitution sub = {
        .placeholder = row->placeholder, .in = surfaces, .in_count = ARRAY_LEN(surfaces)};
    struct vault_in_binding b = {
        .auth = {.type = STR("passthrough"), .substitutions = &sub, .substitutions_count = 1}
    };
    struct vault_in_credential c = {.source = {.value = row->value}};
    struct str methods[] = {STR("GET"),   STR("HEAD"),   STR("POST"),   STR("PUT"),
                            STR("PATCH"), STR("DELETE"), STR("OPTIONS")};
    int n = snprintf(name, sizeof(name), ENV_PREFIX "%.*s", STR_ARG(row->name));
    int r;

    if (n < 0 || (size_t)n >= sizeof(name))
        return err_set(e, EINVAL, "the name of a secret is too long");
    c.name = b.name = sub.credential = str_of(name);
    b.match.hosts = (struct str *)row->hosts;
    b.match.hosts_count = row->host_count;
    b.match.schemes = schemes;
    b.match.schemes_count = ARRAY_LEN(schemes);
    b.match.methods = methods;
    b.match.methods_count = ARRAY_LEN(methods);
    r = add_credential(s, &c, e);
    if (r == 0)
        r = add_binding(s, &b, e);
    if (r == 0) {
        s->credentials[s->credential_count - 1].env = true;
        s->bindings[s->binding_count - 1].env = true;
    }
    return r;
}

int vault_add_env(struct vault *v, const struct vault_secret_env *rows, size_t count,
                  const struct vault_host *h, struct err *e)
{
    static const struct vault_in nothing;
    struct vault_set *s = next_set(v, e);
    int r = 0;

    if (!s)
        return -ENOMEM;
    s->created = vault_exists(v);
    s->revision = vault_revision(v);
    if (v->set)
        r = keep_rest(s, v->set, &nothing, e);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = add_env(s, &rows[i], e);
    return settle(v, s, r, h, e);
}

int vault_adopt(struct vault *v, struct vault_set *s, struct err *e)
{
    static const struct vault_host any_host;

    return settle(v, s, 0, &any_host, e);
}

int vault_placeholder(char out[static VAULT_PLACEHOLDER_BYTES], struct err *e)
{
    static const char prefix[] = VAULT_PLACEHOLDER_PREFIX;
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    unsigned char bytes[VAULT_PLACEHOLDER_BYTES];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return err_sys(e, EIO, "random bytes for a placeholder");
    memcpy(out, prefix, sizeof(prefix) - 1);
    for (size_t i = sizeof(prefix) - 1; i < VAULT_PLACEHOLDER_BYTES - 1; i++)
        out[i] = letters[bytes[i] % 32];
    out[VAULT_PLACEHOLDER_BYTES - 1] = '\0';
    return 0;
}
