/* mcp.c - the methods of MCP, and the life of the process between the loop and the library. */
#include "mcp/mcp.h"

#include <errno.h>

#include "base/id.h"
#include "base/mem.h"
#include "mcp/tools.h"
#include "version.h"

enum { CACHE_MS = 60 * 1000 };

#define SERVER_NAME "OpenSandbox Sandbox"

static const char instructions[] =
    "Sandboxes to run commands, code and files in. Create one with sandbox_create and remember its "
    "sandbox_id: every other tool needs it. Run things with command_run, or code_run for code with "
    "rich results. Use file_read and file_write for files; read large files in parts with "
    "range_header. sandbox_get_endpoint shows how to reach a port. Long output is cut and linked "
    "as a resource; output_read reads any part of it. End with sandbox_kill.";

/* The newest first. Those of the second list begin with initialize, the others carry their version
 * in every request. */
static const char modern_version[] = "2026-07-28";
static const char *const handshake_versions[] = {"2025-11-25", "2025-06-18", "2025-03-26",
                                                 "2024-11-05"};

static bool is_handshake_version(struct str version)
{
    for (size_t i = 0; i < ARRAY_LEN(handshake_versions); i++)
        if (str_eq(version, str_of(handshake_versions[i])))
            return true;
    return false;
}

bool mcp_knows_version(struct str version)
{
    return str_eq(version, STR("2026-07-28")) || is_handshake_version(version);
}

void session_init(struct session *s)
{
    *s = (struct session){.level = MCP_WARNING, .used_ms = time_mono_ms()};
    list_init(&s->link);
    id_uuid(s->id);
}

/* --- answers --- */

void mcp_refuse(struct channel *c, const struct json *id, enum rpc_code code, const char *why,
                struct str data)
{
    AUTO_BUF(out, MCP_REPLY_BYTES_MAX);

    c->code = code;
    if (rpc_error(&out, id, code, why, data) == 0)
        c->send(c, buf_str(&out), true);
    c->end(c);
}

/* A request whose answer is ready at once. */
struct ask {
    struct mcp *mcp;
    struct session *session;
    const struct rpc_message *message;
    enum rpc_code code; /* of a failure */
    struct err why;
};

static int refuse(struct ask *q, enum rpc_code code, const char *why)
{
    q->code = code;
    return err_set(&q->why, EINVAL, "%s", why);
}

static void write_capabilities(struct json_writer *w)
{
    json_write_key(w, STR("capabilities"));
    json_write_raw(w, STR("{\"tools\":{\"listChanged\":false},"
                          "\"resources\":{\"subscribe\":false,\"listChanged\":false},"
                          "\"logging\":{}}"));
    json_member_string(w, STR("instructions"), str_of(instructions));
}

static void write_server_info(struct json_writer *w, struct str key)
{
    json_write_key(w, key);
    json_write_object(w);
    json_member_string(w, STR("name"), STR(SERVER_NAME));
    json_member_string(w, STR("version"), STR(OPENSANDBOX_VERSION));
    json_write_object_end(w);
}

static int do_initialize(struct ask *q, struct json_writer *w)
{
    struct str version;

    if (json_to_str(json_get(q->message->params, STR("protocolVersion")), &version) < 0)
        return refuse(q, RPC_INVALID_PARAMS, "Invalid params: protocolVersion must be a string");
    json_member_string(w, STR("protocolVersion"),
                       is_handshake_version(version) ? version : str_of(handshake_versions[0]));
    write_server_info(w, STR("serverInfo"));
    write_capabilities(w);
    return 0;
}

static int do_discover(struct ask *q UNUSED, struct json_writer *w)
{
    json_write_key(w, STR("supportedVersions"));
    json_write_array(w);
    json_write_string(w, str_of(modern_version));
    for (size_t i = 0; i < ARRAY_LEN(handshake_versions); i++)
        json_write_string(w, str_of(handshake_versions[i]));
    json_write_array_end(w);
    write_capabilities(w);
    json_write_key(w, STR("_meta"));
    json_write_object(w);
    write_server_info(w, STR("io.modelcontextprotocol/serverInfo"));
    json_write_object_end(w);
    return 0;
}

static int do_ping(struct ask *q UNUSED, struct json_writer *w UNUSED)
{
    return 0;
}

static int do_tools_list(struct ask *q, struct json_writer *w)
{
    const struct json *cursor = json_get(q->message->params, STR("cursor"));

    if (cursor && cursor->type != JSON_NULL)
        return refuse(q, RPC_INVALID_PARAMS, "Invalid params: this list has one page, no cursor");
    json_write_key(w, STR("tools"));
    tools_write(w);
    return 0;
}

static int do_set_level(struct ask *q, struct json_writer *w UNUSED)
{
    if (mcp_level_of(json_get(q->message->params, STR("level")), &q->session->level) < 0)
        return refuse(q, RPC_INVALID_PARAMS,
                      "Invalid params: level must be debug, info, notice, warning, error, "
                      "critical, alert or emergency");
    return 0;
}

/* --- resources: output that was too long --- */

static int do_resources_list(struct ask *q, struct json_writer *w)
{
    json_write_key(w, STR("resources"));
    json_write_array(w);
    LIST_EACH(&q->mcp->outputs.all, at)
    {
        const struct output *one = container_of(at, struct output, link);

        json_write_object(w);
        json_member_string(w, STR("uri"), str_of(one->uri));
        json_member_string(w, STR("name"), str_of(one->name));
        json_member_string(w, STR("mimeType"), STR("text/plain"));
        json_member_u64(w, STR("size"), one->text.n);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    return 0;
}

static int do_templates_list(struct ask *q UNUSED, struct json_writer *w)
{
    json_write_key(w, STR("resourceTemplates"));
    json_write_raw(w, STR("[{\"uriTemplate\":\"" OUTPUT_URI "{id}{?offset,length}\","
                          "\"name\":\"output\",\"mimeType\":\"text/plain\",\"description\":"
                          "\"Output that was cut in an answer, all of it or a part in bytes\"}]"));
    return 0;
}

static int do_resources_read(struct ask *q, struct json_writer *w)
{
    struct str uri, part;
    const struct output *one;

    if (json_to_str(json_get(q->message->params, STR("uri")), &uri) < 0)
        return refuse(q, RPC_INVALID_PARAMS, "Invalid params: uri must be a string");
    one = outputs_find(&q->mcp->outputs, uri, &part);
    if (!one)
        return refuse(q, RPC_RESOURCE_NOT_FOUND,
                      "Resource not found: it never was, or it is too old to be kept");
    json_write_key(w, STR("contents"));
    json_write_array(w);
    json_write_object(w);
    json_member_string(w, STR("uri"), uri);
    json_member_string(w, STR("mimeType"), STR("text/plain"));
    json_member_string(w, STR("text"), part);
    json_write_object_end(w);
    json_write_array_end(w);
    return 0;
}

/* --- which method --- */

struct method {
    const char *name;
    bool caches; /* newer clients are told how long the answer holds */
    int (*answer)(struct ask *q, struct json_writer *w);
};

static const struct method methods[] = {
    {"initialize",               false, do_initialize    },
    {"server/discover",          true,  do_discover      },
    {"ping",                     false, do_ping          },
    {"tools/list",               true,  do_tools_list    },
    {"logging/setLevel",         false, do_set_level     },
    {"resources/list",           true,  do_resources_list},
    {"resources/templates/list", true,  do_templates_list},
    {"resources/read",           true,  do_resources_read},
};

static const struct method *find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (str_eq(str_of(methods[i].name), name))
            return &methods[i];
    return NULL;
}

static void answer(struct ask *q, const struct method *m, bool modern, struct channel *c)
{
    AUTO_BUF(out, MCP_REPLY_BYTES_MAX);
    struct json_writer w;
    int r;

    rpc_begin_result(&w, &out, q->message->id);
    json_write_object(&w);
    if (modern)
        json_member_string(&w, STR("resultType"), STR("complete"));
    if (modern && m->caches) {
        json_member_i64(&w, STR("ttlMs"), m->answer == do_resources_list ? 0 : CACHE_MS);
        json_member_string(&w, STR("cacheScope"), STR("private"));
    }
    r = m->answer(q, &w);
    if (r < 0) {
        mcp_refuse(c, q->message->id, q->code, q->why.msg, STR(""));
        return;
    }
    json_write_object_end(&w);
    if (rpc_end(&w) < 0) {
        mcp_refuse(c, q->message->id, RPC_INTERNAL_ERROR, "the result is too large", STR(""));
        return;
    }
    c->send(c, buf_str(&out), true);
    c->end(c);
}

/* True when it was refused. */
static bool refuse_version(struct channel *c, const struct rpc_message *message,
                           const struct json *version)
{
    AUTO_BUF(data, RPC_MESSAGE_BYTES_MAX);
    struct json_writer w;

    if (!version || (version->type == JSON_STRING && str_eq(version->string, STR("2026-07-28"))))
        return false;
    json_write_begin(&w, &data);
    json_write_object(&w);
    json_write_key(&w, STR("supported"));
    json_write_array(&w);
    json_write_string(&w, str_of(modern_version));
    json_write_array_end(&w);
    json_write_key(&w, STR("requested"));
    json_write_value(&w, version);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        buf_clear(&data);
    mcp_refuse(c, message->id,
               version->type == JSON_STRING ? RPC_UNSUPPORTED_VERSION : RPC_INVALID_PARAMS,
               "Unsupported protocol version", buf_str(&data));
    return true;
}

static void handle_request(struct mcp *m, struct session *s, struct channel *c,
                           struct rpc_message *message)
{
    const struct json *version =
        json_get(json_get(message->params, STR("_meta")), STR(MCP_META_VERSION));
    const struct method *method = find(message->method);
    struct ask q = {.mcp = m, .session = s, .message = message};
    const struct tool *tool;
    struct str name;

    if (refuse_version(c, message, version)) {
        ; /* it was told */
    } else if (str_eq(message->method, STR("tools/call"))) {
        if (json_to_str(json_get(message->params, STR("name")), &name) < 0) {
            mcp_refuse(c, message->id, RPC_INVALID_PARAMS,
                       "Invalid params: name must be the name of a tool", STR(""));
        } else if (!(tool = tools_find(name))) {
            mcp_refuse(c, message->id, RPC_INVALID_PARAMS, "Unknown tool: see tools/list", STR(""));
        } else {
            call_start(m, s, c, message, tool);
            return; /* the message is the call's */
        }
    } else if (method) {
        answer(&q, method, version != NULL, c);
    } else {
        mcp_refuse(c, message->id, RPC_METHOD_NOT_FOUND, "Method not found", STR(""));
    }
    rpc_free(message);
}

void mcp_handle(struct mcp *m, struct session *s, struct channel *c, struct rpc_message *message)
{
    s->used_ms = time_mono_ms();
    if (message->kind == RPC_REQUEST) {
        handle_request(m, s, c, message);
        return;
    }
    if (message->kind == RPC_NOTIFICATION &&
        str_eq(message->method, STR("notifications/cancelled"))) {
        const struct json *id = json_get(message->params, STR("requestId"));

        if (id)
            call_cancel(m, s, id);
    }
    rpc_free(message);
}

/* --- life --- */

int mcp_init(struct mcp *m, const struct options *o, struct loop *loop, struct err *e)
{
    const struct osb_config config = {
        OSB_CONFIG,
        .domain = o->domain,
        .protocol = o->protocol ? o->protocol : "http", /* the environment is not consulted */
        .api_key = o->api_key,
        .config_file = o->config_file,
        .use_server_proxy = o->use_server_proxy,
        .request_timeout_ms = o->request_timeout_ms,
        .user_agent = "OpenSandbox-MCP/" OPENSANDBOX_VERSION,
    };
    char message[OSB_MESSAGE_MAX];
    int r;

    *m = (struct mcp){.options = o, .loop = loop};
    map_init(&m->boxes, MCP_BOXES_MAX, NULL);
    list_init(&m->calls);
    list_init(&m->ended);
    outputs_init(&m->outputs);
    r = osb_client_open(&config, &m->client, message);
    return r < 0 ? err_set(e, -r, "%s", message) : 0;
}

void mcp_done(struct mcp *m)
{
    void *box;
    size_t at = 0;

    calls_reap(m);
    while (map_next(&m->boxes, &at, NULL, &box))
        box_unref(box);
    map_done(&m->boxes);
    outputs_done(&m->outputs);
    osb_client_close(m->client);
}

static void on_client(struct loop_io *io UNUSED, uint32_t events UNUSED)
{
    /* what woke us; the work is done after the turn */
}

int mcp_turn(struct mcp *m, int wait_ms, struct err *e)
{
    struct loop_io io = {.fd = -EBADF};
    int r = loop_io_start(m->loop, &io, osb_client_fd(m->client), EPOLLIN, on_client, e);

    if (r < 0)
        return r;
    r = loop_turn(m->loop, wait_ms, e);
    loop_io_stop(m->loop, &io);
    if (r < 0)
        return r;
    r = osb_client_dispatch(m->client);
    calls_reap(m);
    return r < 0 ? err_sys(e, -r, "wait for events") : 0;
}

struct removal {
    struct mcp *mcp;
    char *id;
};

static void remove_box(struct osb_client *client, void *user)
{
    struct removal *one = user;

    osb_client_set_timeout(client, MCP_END_MS);
    (void)osb_sandbox_delete(client, one->id); /* else it expires */
    one->mcp->removals--;
    free(one->id);
    free(one);
}

static void wait_while(struct mcp *m, const size_t *count)
{
    uint64_t deadline = deadline_in_ms(MCP_END_MS);

    while (*count && !deadline_passed(deadline))
        if (mcp_turn(m, deadline_left_ms(deadline), NULL) < 0)
            return;
}

void mcp_finish(struct mcp *m)
{
    size_t at = 0;
    struct str id;
    void *value;

    call_cancel(m, NULL, NULL);
    wait_while(m, &m->call_count);
    while (!m->options->keep && map_next(&m->boxes, &at, &id, &value)) {
        const struct box *b = value;
        struct removal *one;

        if (!b->created)
            continue;
        one = mem_new(struct removal);
        *one = (struct removal){m, mem_strdup(osb_sandbox_id(b->handle))};
        m->removals++;
        if (osb_task_start(m->client, remove_box, one, NULL) < 0) {
            m->removals--;
            free(one->id);
            free(one);
        }
    }
    wait_while(m, &m->removals);
}
