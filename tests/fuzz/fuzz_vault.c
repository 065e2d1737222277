/* Input: the body of a request to the vault: as POST, then as PATCH on the result. What is taken
 * has a state without values; what is refused names none. */
#include "egress/vault/vault.h"

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
    if (vault_patch(v, in, &any_host, &e) == 0)
        check_state(v);
    FUZZ_CHECK(str_find_str(str_of(e.msg), STR(MARKER)) == strlen(e.msg));
    FUZZ_CHECK(vault_delete(v, &any_host, &e) == 0);
    vault_free(v);
    return 0;
}
