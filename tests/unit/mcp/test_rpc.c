#include "mcp/rpc.h"

#include "test.h"

static enum rpc_code code_of(const char *text)
{
    struct rpc_message *m;
    enum rpc_code code = 0;
    struct err e = {0};
    int r = rpc_read(str_of(text), &m, &code, &e);

    rpc_free(m);
    return r < 0 ? code : 0;
}

static enum rpc_kind kind_of(const char *text)
{
    struct rpc_message *m;
    enum rpc_kind kind;
    enum rpc_code code;

    CHECK_EQ(rpc_read(str_of(text), &m, &code, NULL), 0);
    kind = m->kind;
    rpc_free(m);
    return kind;
}

TEST(rpc, tells_requests_notifications_and_responses_apart)
{
    CHECK_EQ(kind_of("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\"}"), RPC_REQUEST);
    CHECK_EQ(kind_of("{\"jsonrpc\":\"2.0\",\"id\":-1,\"method\":\"m\",\"params\":{}}"),
             RPC_REQUEST);
    CHECK_EQ(kind_of("{\"jsonrpc\":\"2.0\",\"method\":\"m\"}"), RPC_NOTIFICATION);
    CHECK_EQ(kind_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"), RPC_RESPONSE);
}

TEST(rpc, refuses_with_the_code_of_the_mistake)
{
    CHECK_EQ(code_of(""), RPC_PARSE_ERROR);
    CHECK_EQ(code_of("{"), RPC_PARSE_ERROR);
    CHECK_EQ(code_of("[]"), RPC_INVALID_REQUEST);
    CHECK_EQ(code_of("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}"), RPC_INVALID_REQUEST);
    CHECK_EQ(code_of("{\"jsonrpc\":\"2.0\",\"id\":1}"), RPC_INVALID_REQUEST);
    CHECK_EQ(code_of("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}"), RPC_INVALID_REQUEST);
    CHECK_EQ(code_of("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"m\"}"), RPC_INVALID_REQUEST);
    CHECK_EQ(code_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[]}"),
             RPC_INVALID_PARAMS);
}

TEST(rpc, knows_the_id_of_a_refused_request)
{
    struct rpc_message *m;
    enum rpc_code code;
    AUTO_BUF(out, 1024);

    CHECK(rpc_read(STR("{\"jsonrpc\":\"2.0\",\"id\":7}"), &m, &code, NULL) < 0);
    CHECK_EQ(rpc_error(&out, m->id, code, "no", STR("{\"a\":1}")), 0);
    CHECK_SPAN(buf_str(&out), "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32600,"
                              "\"message\":\"no\",\"data\":{\"a\":1}}}");
    rpc_free(m);
}
