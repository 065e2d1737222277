/* The first byte chooses: a JSON-RPC message, whose parameters then meet schemas of tools, or the
 * query in the URI of an output. */
#include "fuzz.h"
#include "mcp/outputs.h"
#include "mcp/rpc.h"
#include "mcp/tools.h"

enum { ROOM = 64 << 20 };

static const char *const tools[] = {
    "sandbox_create", "sandbox_list", "command_run", "file_write", "file_create_directories",
};

/* What was read can be answered, and the answer has the same id. */
static void check_answer(const struct rpc_message *m)
{
    AUTO_BUF(out, ROOM);
    AUTO_ARENA(arena, ROOM);
    struct json *v;

    FUZZ_CHECK(rpc_error(&out, m->id, RPC_INTERNAL_ERROR, "x", STR("")) == 0);
    FUZZ_CHECK(json_parse(&arena, buf_str(&out), NULL, &v, NULL) == 0);
    if (m->id)
        FUZZ_CHECK(rpc_same_id(json_get(v, STR("id")), m->id));
}

static void check_message(struct str text)
{
    struct rpc_message *m;
    enum rpc_code code = 0;
    struct err e = {0};

    if (rpc_read(text, &m, &code, &e) < 0) {
        FUZZ_CHECK(code < 0 && e.msg[0]);
    } else {
        FUZZ_CHECK(m->kind != RPC_REQUEST || m->id);
        FUZZ_CHECK(!m->params || m->params->type == JSON_OBJECT);
        for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
            const struct tool *tool = tools_find(str_of(tools[i]));

            e = (struct err){0};
            if (schema_check(&tool->schema, m->params, &e) < 0)
                FUZZ_CHECK(e.msg[0]);
        }
    }
    check_answer(m);
    rpc_free(m);
}

static void check_uri(struct str text)
{
    const struct output *one;
    struct outputs all;
    AUTO_BUF(uri, ROOM);
    struct str part;

    outputs_init(&all);
    FUZZ_CHECK(outputs_add(&all, "x", STR("gr\303\274n"), &one) == 0);
    FUZZ_CHECK(buf_addf(&uri, "%s?", one->uri) == 0 && buf_add(&uri, text) == 0);
    if (outputs_find(&all, buf_str(&uri), &part))
        FUZZ_CHECK(part.n <= one->text.n && (part.n == 0 || (part.p[0] & 0xc0) != 0x80));
    outputs_done(&all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    (data[0] % 2 ? check_uri : check_message)(str_make((const char *)data + 1, size - 1));
    return 0;
}
