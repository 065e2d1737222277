/* call.c - one tool call from its arguments to its answer. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"

enum {
    NOTE_BYTES_MAX = 64 << 10,
    CONNECT_MS = 30 * 1000,
    MESSAGE_MAX = 1024,
};

/* --- arguments --- */

const struct json *call_arg(const struct call *c, const char *name)
{
    const struct json *v = json_get(c->arguments, str_of(name));

    return v && v->type != JSON_NULL ? v : NULL;
}

static const char *otherwise(const struct call *c, const char *name)
{
    const struct schema *s = &c->tool->schema;

    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->fields[i].name, name) == 0)
            return s->fields[i].otherwise;
    return NULL;
}

struct str call_str(const struct call *c, const char *name)
{
    const struct json *v = call_arg(c, name);

    return v ? v->string : STR_NONE;
}

const char *call_text(const struct call *c, const char *name)
{
    return call_str(c, name).p;
}

int64_t call_int(const struct call *c, const char *name)
{
    const struct json *v = call_arg(c, name);
    const char *text = otherwise(c, name);
    int64_t n = 0;

    if (v)
        (void)json_to_i64(v, &n);
    else if (text)
        (void)str_to_i64(str_of(text), &n);
    return n;
}

double call_number(const struct call *c, const char *name)
{
    const struct json *v = call_arg(c, name);
    double n = (double)call_int(c, name);

    if (v)
        (void)json_to_double(v, &n);
    return n;
}

bool call_bool(const struct call *c, const char *name)
{
    const struct json *v = call_arg(c, name);
    const char *text = otherwise(c, name);

    return v ? v->boolean : text && strcmp(text, "true") == 0;
}

const char **call_strings(struct call *c, const struct json *list, size_t *ret_count)
{
    size_t n = 0;
    const char **all = arena_new_array(&c->message->arena, const char *, json_count(list) + 1);

    if (!all)
        return NULL;
    json_each(item, list) all[n++] = item->string.p;
    if (ret_count)
        *ret_count = n;
    return n ? all : NULL;
}

struct osb_pair *call_pairs(struct call *c, const struct json *map, size_t *ret_count)
{
    size_t n = 0;
    struct osb_pair *all =
        arena_new_array(&c->message->arena, struct osb_pair, json_count(map) + 1);

    *ret_count = 0;
    if (!all)
        return NULL;
    json_each(item, map) all[n++] = (struct osb_pair){item->key.p, item->string.p};
    *ret_count = n;
    return n ? all : NULL;
}

/* --- sandboxes --- */

void box_unref(struct box *b)
{
    if (!b || --b->refs > 0)
        return;
    osb_sandbox_free(b->handle);
    free(b);
}

struct box *mcp_box_find(const struct mcp *m, const char *id)
{
    return map_get(&m->boxes, str_of(id));
}

int mcp_box_add(struct mcp *m, struct osb_sandbox *handle, bool created, struct err *e)
{
    struct box *b = mem_new(struct box);
    int r;

    *b = (struct box){handle, 1, created};
    r = map_add(&m->boxes, str_of(osb_sandbox_id(handle)), b);
    if (r == 0)
        return 0;
    box_unref(b);
    if (r == -EEXIST) /* another call was faster: its handle is as good */
        return 0;
    return err_set(e, -r, "this server knows %d sandboxes already; sandbox_kill those not in use",
                   MCP_BOXES_MAX);
}

void mcp_box_forget(struct mcp *m, const char *id)
{
    box_unref(map_take(&m->boxes, str_of(id)));
}

int call_box(struct call *c, struct osb_sandbox **ret)
{
    const char *id = call_text(c, "sandbox_id");
    struct osb_sandbox *handle = NULL;
    int r;

    if (!mcp_box_find(c->mcp, id)) {
        if (!call_bool(c, "connect_if_missing"))
            return err_set(&c->why, ENOENT,
                           "Sandbox '%.80s' is not in the local registry. Call sandbox_connect "
                           "first, or set connect_if_missing to true.",
                           id);
        r = osb_sandbox_connect(c->mcp->client, id, &handle);
        if (r < 0)
            return r;
        r = osb_sandbox_wait_ready(handle, CONNECT_MS, 0);
        if (r < 0) {
            osb_sandbox_free(handle);
            return r;
        }
        r = mcp_box_add(c->mcp, handle, false, &c->why);
        if (r < 0)
            return r;
    }
    c->box = mcp_box_find(c->mcp, id);
    c->box->refs++;
    *ret = c->box->handle;
    return 0;
}

/* --- what is told meanwhile --- */

static void send(struct call *c, const struct buf *out, bool is_answer)
{
    if (out->n && !c->canceled)
        c->channel->send(c->channel, buf_str(out), is_answer);
}

static void tell(struct call *c, const struct buf *out, int r)
{
    if (r == 0)
        send(c, out, false);
}

void call_progress(struct call *c, double progress, const char *message)
{
    AUTO_BUF(out, NOTE_BYTES_MAX);
    struct json_writer w;

    if (!c->progress_token || progress <= c->progress)
        return;
    c->progress = progress;
    c->progress_ms = time_mono_ms();
    rpc_begin_notification(&w, &out, STR("notifications/progress"));
    json_write_object(&w);
    json_write_key(&w, STR("progressToken"));
    json_write_value(&w, c->progress_token);
    json_member_double(&w, STR("progress"), progress);
    if (progress <= 1.0)
        json_member_double(&w, STR("total"), 1.0);
    json_member_string(&w, STR("message"), str_of(message));
    json_write_object_end(&w);
    tell(c, &out, rpc_end(&w));
}

static const char *const level_names[MCP_LEVELS] = {
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
};

int mcp_level_of(const struct json *name, int *ret)
{
    for (int i = 0; name && name->type == JSON_STRING && i < MCP_LEVELS; i++)
        if (str_eq(name->string, str_of(level_names[i]))) {
            *ret = i;
            return 0;
        }
    return -EINVAL;
}

void call_log(struct call *c, enum mcp_level level, const char *fmt, ...)
{
    AUTO_BUF(out, NOTE_BYTES_MAX);
    char text[MESSAGE_MAX];
    struct json_writer w;
    va_list ap;

    if ((int)level < c->level)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    rpc_begin_notification(&w, &out, STR("notifications/message"));
    json_write_object(&w);
    json_member_string(&w, STR("level"), str_of(level_names[level]));
    json_member_string(&w, STR("logger"), STR("opensandbox-mcp"));
    json_member_string(&w, STR("data"), str_of(text));
    json_write_object_end(&w);
    tell(c, &out, rpc_end(&w));
}

/* --- content beside the text --- */

int call_link(struct call *c, const char *name, struct str text, const char **ret_uri)
{
    const struct output *kept;
    AUTO_BUF(item, NOTE_BYTES_MAX);
    struct json_writer w;
    int r = outputs_add(&c->mcp->outputs, name, text, &kept);

    if (r < 0)
        return err_set(&c->why, -r, "cannot keep the output: %s", strerror(-r));
    json_write_begin(&w, &item);
    json_write_object(&w);
    json_member_string(&w, STR("type"), STR("resource_link"));
    json_member_string(&w, STR("uri"), str_of(kept->uri));
    json_member_string(&w, STR("name"), str_of(kept->name));
    json_member_string(&w, STR("mimeType"), STR("text/plain"));
    json_member_u64(&w, STR("size"), text.n);
    json_member_string(&w, STR("description"),
                       STR("All of it. Parts: add ?offset=N&length=N, or use output_read."));
    json_write_object_end(&w);
    r = json_write_end(&w);
    if (r == 0)
        r = buf_addf(&c->content, ",%s", item.p);
    *ret_uri = kept->uri;
    return r;
}

int call_image(struct call *c, struct str mime, struct str base64)
{
    struct json_writer w;
    int r = buf_add_char(&c->content, ',');

    json_write_begin(&w, &c->content);
    json_write_object(&w);
    json_member_string(&w, STR("type"), STR("image"));
    json_member_string(&w, STR("data"), base64);
    json_member_string(&w, STR("mimeType"), mime);
    json_write_object_end(&w);
    return r < 0 ? r : json_write_end(&w);
}

/* --- the call --- */

static void write_answer(struct call *c, struct buf *out, const struct buf *result,
                         const char *failure)
{
    struct json_writer w;

    rpc_begin_result(&w, out, c->message->id);
    json_write_object(&w);
    if (c->modern)
        json_member_string(&w, STR("resultType"), STR("complete"));
    json_write_key(&w, STR("content"));
    json_write_array(&w);
    json_write_object(&w);
    json_member_string(&w, STR("type"), STR("text"));
    json_member_string(&w, STR("text"), failure ? str_of(failure) : buf_str(result));
    json_write_object_end(&w);
    if (!failure && c->content.n) /* without its first comma */
        json_write_raw(&w, str_skip(buf_str(&c->content), 1));
    json_write_array_end(&w);
    if (!failure) {
        json_write_key(&w, STR("structuredContent"));
        json_write_raw(&w, buf_str(result));
    }
    json_member_bool(&w, STR("isError"), failure != NULL);
    json_write_object_end(&w);
    if (rpc_end(&w) < 0 &&
        rpc_error(out, c->message->id, RPC_INTERNAL_ERROR, "the result is too large", STR("")) < 0)
        buf_clear(out);
}

/* "SANDBOX::NOT_FOUND: no such sandbox (request 4f2...)" */
static void explain(const struct call *c, int r, char text[MESSAGE_MAX])
{
    const struct osb_error *e = osb_client_error(c->mcp->client);
    const char *code = osb_error_code(e), *request = osb_error_request_id(e);

    if (c->why.code)
        (void)snprintf(text, MESSAGE_MAX, "%s", c->why.msg);
    else if (osb_error_errno(e) == -r)
        (void)snprintf(text, MESSAGE_MAX, "%s%s%s%s%s%s", code, code[0] ? ": " : "",
                       osb_error_message(e), request[0] ? " (request " : "", request,
                       request[0] ? ")" : "");
    else
        (void)snprintf(text, MESSAGE_MAX, "%s failed: %s", c->tool->name, strerror(-r));
}

void call_keep_error(struct call *c, int r)
{
    char text[MESSAGE_MAX];

    explain(c, r, text);
    if (!c->why.code)
        (void)err_set(&c->why, -r, "%s", text);
}

static void call_end(struct call *c)
{
    list_remove(&c->link);
    c->mcp->call_count--;
    c->session->calls--;
    c->session->used_ms = time_mono_ms();
    box_unref(c->box);
    c->channel->end(c->channel);
    buf_done(&c->content);
    rpc_free(c->message);
    list_push(&c->mcp->ended, &c->link); /* its task is joined when it has left its stack */
}

void calls_reap(struct mcp *m)
{
    struct list *at;

    while ((at = list_take(&m->ended))) {
        struct call *c = container_of(at, struct call, link);

        if (c->task)
            (void)osb_task_join(c->task);
        free(c);
    }
}

static int call_run(struct call *c, struct buf *result)
{
    struct json_writer w;
    int r = schema_check(&c->tool->schema, c->arguments, &c->why);

    if (r < 0)
        return r;
    json_write_begin(&w, result);
    r = c->tool->run(c, &w);
    return r < 0 ? r : json_write_end(&w);
}

static void call_task(struct osb_client *client UNUSED, void *user)
{
    struct call *c = user;
    AUTO_BUF(result, MCP_REPLY_BYTES_MAX);
    AUTO_BUF(out, 2 * MCP_REPLY_BYTES_MAX);
    char text[MESSAGE_MAX];
    int r = call_run(c, &result);

    if (r < 0) {
        explain(c, r, text);
        if (!c->canceled)
            call_log(c, MCP_WARNING, "%s: %s", c->tool->name, text);
    }
    write_answer(c, &out, &result, r < 0 ? text : NULL);
    send(c, &out, true);
    call_end(c);
}

static void call_reject(struct call *c)
{
    AUTO_BUF(out, NOTE_BYTES_MAX);

    if (rpc_error(&out, c->message->id, RPC_BUSY,
                  "too many calls at a time; wait until some of them ended", STR("")) == 0)
        send(c, &out, true);
    call_end(c);
}

void call_start(struct mcp *m, struct session *s, struct channel *channel,
                struct rpc_message *message, const struct tool *tool)
{
    const struct json *meta = json_get(message->params, STR("_meta"));
    struct call *c = mem_new(struct call);

    *c = (struct call){
        .mcp = m,
        .session = s,
        .channel = channel,
        .message = message,
        .tool = tool,
        .arguments = json_get(message->params, STR("arguments")),
        .progress_token = json_get(meta, STR("progressToken")),
        .modern = json_get(meta, STR(MCP_META_VERSION)) != NULL,
        .level = s->level,
    };
    if (c->modern && mcp_level_of(json_get(meta, STR(MCP_META_LEVEL)), &c->level) < 0)
        c->level = MCP_LEVELS; /* such a client hears only what it asked for */
    buf_init(&c->content, MCP_REPLY_BYTES_MAX);
    if (c->arguments && c->arguments->type == JSON_NULL)
        c->arguments = NULL;
    list_push(&m->calls, &c->link);
    m->call_count++;
    s->calls++;
    if (m->call_count > MCP_CALLS_MAX || osb_task_start(m->client, call_task, c, &c->task) < 0)
        call_reject(c);
}

static void cancel(struct call *c)
{
    if (!c->canceled && !c->shielded)
        osb_task_cancel(c->task);
    c->canceled = true;
}

void call_cancel(struct mcp *m, const struct session *s, const struct json *id)
{
    LIST_EACH(&m->calls, at)
    {
        struct call *c = container_of(at, struct call, link);

        if ((!s || c->session == s) && (!id || rpc_same_id(c->message->id, id)))
            cancel(c);
    }
}

void call_cancel_channel(struct mcp *m, const struct channel *channel)
{
    LIST_EACH(&m->calls, at)
    {
        struct call *c = container_of(at, struct call, link);

        if (c->channel == channel)
            cancel(c);
    }
}
