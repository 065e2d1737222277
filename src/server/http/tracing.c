#include "server/http/tracing.h"

#include <stdio.h>

#include "server/http/server_internal.h"

enum { NAME_MAX_BYTES = 256, SANDBOX_ID_MAX = 64 };

struct request_trace {
    struct trace_span span;
    char sandbox[SANDBOX_ID_MAX];
    bool keeps_state;
};

/* False: there is none, or not one that is valid. */
static bool read_parent(const struct http_req *req, struct trace_context *ret, bool *ret_state)
{
    const struct http_headers *h = &req->head.headers;
    const struct http_header *row = http_header_find(h, STR("traceparent"));

    *ret_state = false;
    if (!row || http_header_next(h, row) || trace_parse(str_trim(row->value), ret) < 0)
        return false;
    *ret_state = true;
    for (row = http_header_find(h, STR("tracestate")); row; row = http_header_next(h, row))
        *ret_state &= trace_state_is_valid(row->value);
    return true;
}

/* Those that only look whether the server is alive: their spans would be most of all. */
static bool is_noise(struct str path)
{
    return guard_is_open_path(path) || str_eq(path, STR("/metrics")) ||
           str_eq(path, STR("/v1/metrics"));
}

void tracing_begin(struct http_req *req)
{
    const struct config *config = server_of(req)->config;
    struct trace_context parent, context;
    struct request_trace *t;
    bool state, has_parent;

    if (!trace_is_on())
        return;
    has_parent = read_parent(req, &parent, &state);
    t = arena_new(&req->arena, struct request_trace);
    req->trace = t;
    if (!t)
        return;
    t->keeps_state = has_parent && state;
    context = trace_context_new(has_parent ? &parent : NULL);
    if ((!has_parent && is_noise(req->head.path)) ||
        !trace_sample((enum trace_sampler)config->telemetry.traces_sampler,
                      config->telemetry.traces_sampler_arg, has_parent ? &parent : NULL,
                      context.trace_id))
        return;
    context.sampled = true;
    t->span.context = context;
    if (has_parent)
        memcpy(t->span.parent_id, parent.span_id, sizeof(t->span.parent_id));
    t->span.begin_ns = req->begin_ns;
}

const struct trace_context *tracing_of(const struct http_req *req)
{
    const struct request_trace *t = req->trace;

    return t && trace_is_recorded(&t->span) ? &t->span.context : NULL;
}

bool tracing_keeps_state(const struct http_req *req)
{
    const struct request_trace *t = req->trace;

    return !t || t->keeps_state;
}

void tracing_leave(struct http_req *req UNUSED)
{
    (void)trace_enter(NULL);
}

void tracing_note_sandbox(struct http_req *req, const char *id)
{
    struct request_trace *t = req->trace;

    if (t && !t->sandbox[0])
        (void)!str_copy(t->sandbox, sizeof(t->sandbox), str_of(id));
}

/* What clients write there may be anything: only what is the id of a sandbox is told. */
void tracing_enter(struct http_req *req)
{
    struct str id = http_req_param(req, "sandboxId");
    const struct sandbox *sb;

    if (!tracing_of(req))
        return;
    sb = id.n ? sandboxes_find(server_of(req)->sandboxes, id) : NULL;
    if (sb)
        tracing_note_sandbox(req, sb->id);
    (void)trace_enter(tracing_of(req));
}

void tracing_end(struct http_req *req, int error)
{
    struct request_trace *t = req->trace;
    const char *route = req->route ? req->route->path : "none";
    const struct principal *by = guard_principal(req);
    char name[NAME_MAX_BYTES];
    struct trace_attribute rows[TRACE_ATTRIBUTES_MAX];
    struct trace_note note = {.kind = TRACE_SERVER, .attributes = rows};
    struct str method = http_method_name(req->head.method);

    if (!tracing_of(req))
        return;
    method = method.n ? method : STR("_OTHER");
    (void)snprintf(name, sizeof(name), "%.*s %s", STR_ARG(method), route);
    note.name = str_of(name);
    note.failed = error || req->status >= 500;
    rows[note.attribute_count++] = (struct trace_attribute){"http.request.method", method, 0};
    rows[note.attribute_count++] = (struct trace_attribute){"http.route", str_of(route), 0};
    if (req->status)
        rows[note.attribute_count++] =
            (struct trace_attribute){"http.response.status_code", STR_NONE, req->status};
    rows[note.attribute_count++] = (struct trace_attribute){"opensandbox.request_id", req->id, 0};
    if (by->tenant[0])
        rows[note.attribute_count++] =
            (struct trace_attribute){"opensandbox.tenant", str_of(by->tenant), 0};
    if (t->sandbox[0])
        rows[note.attribute_count++] =
            (struct trace_attribute){"opensandbox.sandbox_id", str_of(t->sandbox), 0};
    trace_end(&t->span, &note);
}
