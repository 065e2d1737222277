#include "egress/vault/vault_keep.h"

#include <errno.h>

#include "test.h"

static const unsigned char key[AEAD_KEY_BYTES] = "0123456789abcdef0123456789abcde";
static const unsigned char other_key[AEAD_KEY_BYTES] = "another key";
static const struct vault_host any_host = {.intercepting = true, .ready = true};
static struct err e;

#define PLACEHOLDER "osb_secret_abcdefghijklmnopqrstuvwxyz01"

static const char create_json[] =
    "{\"credentials\":[{\"name\":\"a\",\"source\":{\"value\":\"value-a-9\\\"\\u00e9\"}},"
    "{\"name\":\"b\",\"source\":{\"value\":\"value-b-9\"}}],"
    "\"bindings\":[{\"name\":\"one\",\"match\":{\"hosts\":[\"A.test.x\",\"*.b.test\"],"
    "\"methods\":[\"get\"],\"paths\":[\"/v1/*\"],\"schemes\":[\"http\"],\"ports\":[80]},"
    "\"auth\":{\"type\":\"customHeaders\",\"headers\":[{\"name\":\"x-a\",\"credential\":\"a\"},"
    "{\"name\":\"x-b\",\"credential\":\"b\"}],\"substitutions\":[{\"credential\":\"b\","
    "\"placeholder\":\"PLACE-OF-B\",\"in\":[\"query\",\"body\"]}]}},"
    "{\"name\":\"two\",\"match\":{\"hosts\":[\"c.test\"]},\"auth\":{\"type\":\"apiKey\","
    "\"name\":\"x-key\",\"credential\":\"b\"}},"
    "{\"name\":\"three\",\"match\":{\"hosts\":[\"d.test\"]},\"auth\":{\"type\":\"bearer\","
    "\"credential\":\"a\"}},"
    "{\"name\":\"four\",\"match\":{\"hosts\":[\"e.test\"]},\"auth\":{\"type\":\"basic\","
    "\"credential\":\"b\"}}]}";

static void add_env(struct vault *v)
{
    struct str hosts[] = {STR("api.openai.com")};
    struct vault_secret_env env = {STR("KEY"), STR("sk-very-secret"), STR(PLACEHOLDER), hosts, 1};

    CHECK_EQ(vault_add_env(v, &env, 1, &any_host, &e), 0);
}

/* A vault of all kinds, at revision 2. */
static struct vault *full_vault(void)
{
    struct vault *v = vault_new();

    add_env(v);
    CHECK_EQ(vault_create(v, str_of(create_json), &any_host, &e), 0);
    CHECK_EQ(vault_patch(v,
                         STR("{\"credentials\":{\"replace\":[{\"name\":\"b\",\"source\":{\"value\":"
                             "\"value-b-10\"}}]}}"),
                         &any_host, &e),
             0);
    return v;
}

static void write_file(struct vault *v, const unsigned char *by, const char *id, struct buf *out)
{
    struct vault_set *s = vault_current(v);

    CHECK_EQ(vault_keep_write(s, by, str_of(id), out, &e), 0);
    vault_set_unref(s);
}

/* All that a request could see of a set. */
static void dump(struct vault *v, struct buf *out)
{
    struct vault_set *s = vault_current(v);
    struct json_writer w;

    json_write_begin(&w, out);
    vault_write_state(&w, s);
    CHECK_EQ(json_write_end(&w), 0);
    for (size_t i = 0; i < s->credential_count; i++)
        (void)buf_addf(out, "\n%.*s=%.*s %llu %d", STR_ARG(s->credentials[i].name),
                       STR_ARG(s->credentials[i].value),
                       (unsigned long long)s->credentials[i].revision, s->credentials[i].env);
    for (size_t i = 0; i < s->binding_count; i++) {
        const struct vault_binding *b = &s->bindings[i];

        (void)buf_addf(out, "\n%.*s %d", STR_ARG(b->name), b->env);
        for (size_t j = 0; j < b->header_count; j++)
            (void)buf_addf(out, " %.*s: %.*s", STR_ARG(b->headers[j].name),
                           STR_ARG(b->headers[j].value));
        for (size_t j = 0; j < b->substitution_count; j++)
            (void)buf_addf(out, " %.*s>%.*s %u", STR_ARG(b->substitutions[j].placeholder),
                           STR_ARG(b->substitutions[j].value), b->substitutions[j].in);
    }
    vault_set_unref(s);
}

TEST(vault_keep, restores_all_of_a_vault)
{
    struct vault *v = full_vault(), *again = vault_new();
    AUTO_BUF(file, VAULT_FILE_BYTES_MAX);
    AUTO_BUF(before, 1 << 20);
    AUTO_BUF(after, 1 << 20);

    write_file(v, key, "box", &file);
    CHECK_EQ(vault_keep_read(again, key, STR("box"), buf_str(&file), &e), VAULT_KEPT);
    dump(v, &before);
    dump(again, &after);
    CHECK_STR(after.p, before.p);
    CHECK(str_find_str(buf_str(&after), STR("PLACE-OF-B>value-b-10")) < after.n);
    CHECK_EQ(vault_revision(again), 2);
    CHECK(!vault_is_lost(again));
    CHECK_EQ(vault_patch(again, STR("{\"expectedRevision\":2}"), &any_host, &e), 0);
    vault_free(v);
    vault_free(again);
}

TEST(vault_keep, writes_no_value_in_clear)
{
    static const char *const values[] = {"value-a", "value-b", "sk-very-secret"};
    struct vault *v = full_vault();

    for (int sealed = 0; sealed < 2; sealed++) {
        AUTO_BUF(file, VAULT_FILE_BYTES_MAX);

        write_file(v, sealed ? key : NULL, "box", &file);
        for (size_t i = 0; i < ARRAY_LEN(values); i++)
            CHECK_EQ(str_find_str(buf_str(&file), str_of(values[i])), file.n);
        CHECK(str_find_str(buf_str(&file), STR(PLACEHOLDER)) < file.n);
        CHECK(sealed || file.p[file.n - 1] == '\n');
    }
    vault_free(v);
}

static void check_lost(const unsigned char *by, const char *id, struct str file)
{
    struct vault *v = vault_new();
    struct vault_set *s;
    const struct rewrite_rule *rule;

    CHECK_EQ(vault_keep_read(v, by, str_of(id), file, &e), VAULT_LOST);
    CHECK(e.msg[0] != '\0');
    CHECK(vault_is_lost(v) && !vault_exists(v));
    s = vault_current(v);
    CHECK_EQ(s->credential_count + s->binding_count, 0);
    rule = rewrite_find(s->guards, STR("GET /" PLACEHOLDER));
    CHECK(rule && rule->tag < s->lost_count);
    if (by && !str_eq(str_of(id), STR("box"))) /* that sandbox has placeholders of its own */
        CHECK(rewrite_find(s->guards, STR(VAULT_PLACEHOLDER_PREFIX "another")));
    vault_set_unref(s);
    vault_free(v);
}

TEST(vault_keep, is_lost_without_the_same_key_sandbox_and_bytes)
{
    struct vault *v = full_vault();
    AUTO_BUF(file, VAULT_FILE_BYTES_MAX);
    AUTO_BUF(bare, VAULT_FILE_BYTES_MAX);
    size_t line;

    write_file(v, key, "box", &file);
    check_lost(other_key, "box", buf_str(&file));
    check_lost(NULL, "box", buf_str(&file));
    check_lost(key, "other", buf_str(&file));
    line = str_find(buf_str(&file), '\n');
    for (size_t cut = 0; cut < file.n; cut += cut < line + 40 ? 1 : 61)
        check_lost(key, "box", str_make(file.p, cut));
    for (size_t at = 0; at < file.n; at += at < line + 40 ? 1 : 61) {
        struct vault *again = vault_new();

        file.p[at] ^= 1;
        CHECK_EQ(vault_keep_read(again, key, STR("box"), buf_str(&file), &e), VAULT_LOST);
        file.p[at] ^= 1;
        vault_free(again);
    }
    write_file(v, NULL, "box", &bare);
    check_lost(key, "box", buf_str(&bare));
    vault_free(v);
}

TEST(vault_keep, binds_the_revision)
{
    struct vault *v = full_vault(), *again = vault_new();
    AUTO_BUF(old, VAULT_FILE_BYTES_MAX);
    AUTO_BUF(new, VAULT_FILE_BYTES_MAX);
    AUTO_BUF(mixed, VAULT_FILE_BYTES_MAX);

    write_file(v, key, "box", &old);
    CHECK_EQ(vault_patch(v, STR("{}"), &any_host, &e), 0);
    write_file(v, key, "box", &new);
    CHECK_EQ(buf_add(&mixed, str_make(new.p, str_find(buf_str(&new), '\n'))), 0);
    CHECK_EQ(buf_add(&mixed, str_skip(buf_str(&old), str_find(buf_str(&old), '\n'))), 0);
    CHECK_EQ(vault_keep_read(again, key, STR("box"), buf_str(&mixed), &e), VAULT_LOST);
    vault_free(v);
    vault_free(again);
}

TEST(vault_keep, stays_lost_until_there_is_a_new_vault)
{
    struct vault *v = full_vault(), *lost = vault_new(), *again = vault_new();
    AUTO_BUF(file, VAULT_FILE_BYTES_MAX);
    AUTO_BUF(next, VAULT_FILE_BYTES_MAX);
    struct vault_set *s;

    write_file(v, NULL, "box", &file);
    CHECK_EQ(vault_keep_read(lost, NULL, STR("box"), buf_str(&file), &e), VAULT_LOST);
    CHECK_EQ(vault_patch(lost, STR("{}"), &any_host, &e), -ENOENT);
    CHECK_EQ(vault_create(lost, str_of(create_json), &any_host, &e), 0);
    CHECK(vault_exists(lost) && !vault_is_lost(lost));
    s = vault_current(lost);
    CHECK_EQ(s->lost_count, 1); /* what was in the environment stays lost */
    CHECK_SPAN(s->lost[0].name, "KEY");
    CHECK(!rewrite_find(s->guards, STR("PLACE-OF-B")));
    CHECK(rewrite_find(s->guards, STR(PLACEHOLDER)));
    vault_set_unref(s);
    write_file(lost, key, "box", &next); /* also through another restart */
    CHECK_EQ(vault_keep_read(again, key, STR("box"), buf_str(&next), &e), VAULT_KEPT);
    s = vault_current(again);
    CHECK(vault_exists(again) && rewrite_find(s->guards, STR(PLACEHOLDER)));
    vault_set_unref(s);
    CHECK_EQ(vault_delete(again, &any_host, &e), 0);
    s = vault_current(again);
    CHECK(s && !vault_exists(again) && s->lost_count == 1);
    vault_set_unref(s);
    vault_free(v);
    vault_free(lost);
    vault_free(again);
}

TEST(vault_keep, refuses_any_placeholder_after_a_file_that_cannot_be_read)
{
    static const char *const files[] = {"", "\n", "{}\n", "{\"version\":2}\n", "x\ny"};

    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        check_lost(key, "box", str_of(files[i]));
}

static int refuse(void *user, const struct vault_set *next, struct err *why)
{
    int *calls = user;

    (*calls)++;
    return err_set(why, ENOSPC, "no room: %d", next != NULL);
}

TEST(vault_keep, changes_nothing_that_cannot_be_stored)
{
    int calls = 0;
    struct vault_host host = {.store = refuse, .user = &calls};
    struct vault *v = vault_new();

    CHECK_EQ(vault_create(v, str_of(create_json), &host, &e), -ENOSPC);
    CHECK(!vault_exists(v));
    CHECK_EQ(vault_create(v, str_of(create_json), &any_host, &e), 0);
    CHECK_EQ(vault_patch(v, STR("{}"), &host, &e), -ENOSPC);
    CHECK_EQ(vault_revision(v), 1);
    CHECK_EQ(vault_delete(v, &host, &e), -ENOSPC);
    CHECK_STR(e.msg, "no room: 0");
    CHECK(vault_exists(v));
    CHECK_EQ(calls, 3);
    vault_free(v);
}
