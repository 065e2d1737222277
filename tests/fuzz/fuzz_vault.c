/* Input: the body of a request to the vault: as POST, then as PATCH on the result. What is taken
 * has a state without values, and comes back from a file unchanged; what is refused names none. The
 * input as a file never opens, and leaves a vault that refuses. */
#include "egress/vault/vault_keep.h"

#include "fuzz.h"

#define MARKER "Zq9sEcReT"

static void check_hidden(struct str text)
{
    FUZZ_CHECK(str_find_str(text, STR("\"value\"")) == text.n);
}

static void check_state(struct vault *v)
{
    struct vault_set *s = vault_current(v);
    AUTO_BUF(b, 16 << 20);
    struct json_writer w;

    FUZZ_CHECK(s != NULL);
    json_write_begin(&w, &b);
    vault_write_state(&w, s);
    FUZZ_CHECK(json_write_end(&w) == 0);
    check_hidden(buf_str(&b));
    for (size_t i = 0; i < s->binding_count; i++)
        for (size_t j = 0; j < s->bindings[i].header_count; j++)
            FUZZ_CHECK(str_find(s->bindings[i].headers[j].value, '\n') ==
                       s->bindings[i].headers[j].value.n);
    vault_set_unref(s);
}

static const unsigned char key[AEAD_KEY_BYTES] = "a key";

static void write_set(struct vault *v, struct buf *out)
{
    struct vault_set *s = vault_current(v);
    struct json_writer w;

    json_write_begin(&w, out);
    vault_write_state(&w, s);
    FUZZ_CHECK(json_write_end(&w) == 0);
    for (size_t i = 0; i < s->credential_count; i++)
        FUZZ_CHECK(buf_add(out, s->credentials[i].value) == 0);
    vault_set_unref(s);
}

static void check_file(struct vault *v)
{
    struct vault_set *s = vault_current(v);
    struct vault *again = vault_new();
    AUTO_BUF(file, VAULT_FILE_BYTES_MAX);
    AUTO_BUF(before, 64 << 20);
    AUTO_BUF(after, 64 << 20);
    struct err e = {0};

    FUZZ_CHECK(vault_keep_write(s, key, STR("box"), &file, &e) == 0);
    FUZZ_CHECK(vault_keep_read(again, key, STR("box"), buf_str(&file), &e) == VAULT_KEPT);
    write_set(v, &before);
    write_set(again, &after);
    FUZZ_CHECK(str_eq(buf_str(&before), buf_str(&after)));
    vault_set_unref(s);
    vault_free(again);
}

static void check_as_file(struct str in)
{
    struct vault *v = vault_new();
    struct vault_set *s;
    struct err e = {0};

    FUZZ_CHECK(vault_keep_read(v, key, STR("box"), in, &e) == VAULT_LOST);
    s = vault_current(v);
    FUZZ_CHECK(s && s->credential_count == 0 && s->binding_count == 0 && !s->created);
    vault_set_unref(s);
    vault_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct vault_host any_host = {.intercepting = true, .ready = true};
    struct str in = str_make((const char *)data, size);
    struct vault *v = vault_new();
    struct err e = {0};

    if (vault_create(v, in, &any_host, &e) < 0)
        (void)vault_create(
            v, STR("{\"credentials\":[{\"name\":\"a\",\"source\":{\"value\":\"" MARKER "\"}}]}"),
            &any_host, &e);
    check_state(v);
    check_file(v);
    if (vault_patch(v, in, &any_host, &e) == 0)
        check_state(v);
    check_as_file(in);
    if (str_find_str(in, STR(MARKER)) == in.n) /* a name of the input may be shown */
        FUZZ_CHECK(str_find_str(str_of(e.msg), STR(MARKER)) == strlen(e.msg));
    FUZZ_CHECK(vault_delete(v, &any_host, &e) == 0);
    vault_free(v);
    return 0;
}
