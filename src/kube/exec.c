#include "kube/exec.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "kube/client_internal.h"
#include "net/ws.h"

enum {
    TIMEOUT_MS_USUAL = 60 * 1000,
    OPEN_MS = 15 * 1000,
    QUERY_MAX = 64 << 10,
    STATUS_MAX = 256 << 10,
    TEXT_MAX = 256 << 10,
    CHANNEL_STDIN = 0,
    CHANNEL_STDERR = 2,
    CHANNEL_STATUS = 3,
    CHANNEL_CLOSE = 255, /* v5 only */
};

struct kube_exec {
    struct kube_client *client;
    struct kube_exec_spec spec;
    struct arena arena;
    struct str query;
    struct ws *ws;          /* NULL before it is begun and after it ended */
    struct kube_call *call; /* fetches a token first */
    struct loop_timer deadline;
    struct buf status; /* of the command, JSON */
    bool cancelled;
};

static void exec_free(struct kube_exec *x)
{
    loop_timer_stop(kube_client_loop(x->client), &x->deadline);
    if (x->call)
        kube_cancel(x->call);
    buf_done(&x->status);
    arena_wipe(&x->arena);
    free(x);
}

static void exec_end(struct kube_exec *x, int exit_code, const struct kube_error *error)
{
    void (*on_end)(void *, int, const struct kube_error *) = x->spec.on_end;
    void *user = x->spec.user;
    bool tell = !x->cancelled;
    struct kube_error copy = error ? *error : (struct kube_error){0};

    exec_free(x);
    if (tell)
        on_end(user, exit_code, error ? &copy : NULL);
}

static void exec_fail(struct kube_exec *x, int status, int code, const char *what)
{
    struct kube_error error = {.status = status};

    if (status >= 300)
        (void)!kube_error_of(status, STR(""), STR(""), &error);
    (void)err_set(&error.err, status >= 300 ? error.err.code : code, "exec in pod %.*s: %s",
                  STR_ARG(x->spec.pod), what);
    exec_end(x, -1, &error);
}

/* The last message: a Status. False when the command did not run, and then *ret says why. */
static bool read_status(const struct kube_exec *x, int *ret_code, struct kube_error *ret)
{
    auto_object *o = NULL;
    uint16_t code;

    if (kube_object_parse(buf_str(&x->status), &o, &ret->err) < 0)
        return false;
    *ret_code = 0;
    if (str_eq(kube_str(o->root, "status"), STR("Success")))
        return true;
    if (str_eq(kube_str(o->root, "reason"), STR("NonZeroExitCode"))) {
        json_each(cause, kube_get(o->root, "details.causes"))
        {
            if (str_eq(kube_str(cause, "reason"), STR("ExitCode")) &&
                str_to_u16(kube_str(cause, "message"), &code) == 0) {
                *ret_code = code;
                return true;
            }
        }
    }
    (void)!kube_error_of_status(o->root, ret);
    return false;
}

/* --- the connection --- */

static void on_message(struct ws *ws, enum ws_opcode opcode, struct str data)
{
    struct kube_exec *x = ws_user(ws);
    int channel;

    if (!data.n)
        return;
    channel = (unsigned char)data.p[0];
    data = str_skip(data, 1);
    if (channel == CHANNEL_STATUS) {
        if (buf_add(&x->status, data) < 0)
            ws_cut(ws, EMSGSIZE);
    } else if (channel > CHANNEL_STDIN && channel <= CHANNEL_STDERR && data.n &&
               x->spec.on_output && !x->cancelled) {
        x->spec.on_output(x->spec.user, channel, data);
    }
}

static void on_close(struct ws *ws, uint16_t code, struct str reason, const struct err *error)
{
    struct kube_exec *x = ws_user(ws);
    struct kube_error why = {0};
    int exit_code = -1, refused = ws_refused_status(ws);

    x->ws = NULL;
    if (x->status.n) {
        bool ran = read_status(x, &exit_code, &why);

        exec_end(x, exit_code, ran ? NULL : &why);
    } else {
        exec_fail(x, refused, error && error->code ? error->code : EIO,
                  error ? error->msg : "it ended without a status");
    }
}

static const struct ws_ops exec_ops = {.on_message = on_message, .on_close = on_close};

static int connect_now(struct kube_exec *x, struct err *e)
{
    static const struct str protocols[] = {STR_INIT("v5.channel.k8s.io"),
                                           STR_INIT("v4.channel.k8s.io")};
    struct kube_request rq = {
        .verb = KUBE_GET,
        .kind = &kube_pods,
        .ns = x->spec.ns,
        .name = x->spec.pod,
        .subresource = STR("exec"),
        .query = x->query,
    };
    struct kube_endpoint at;
    struct ws_connect_spec spec = {
        .open_ms = OPEN_MS, .conf = {.protocols = protocols, .protocol_count = 2}
    };
    int r = kube_client_endpoint(x->client, &rq, &x->arena, &at, e);

    if (r < 0)
        return r;
    spec.addr = &at.addr;
    spec.tls = at.tls;
    spec.tls_host = at.tls_host;
    spec.target = at.target;
    spec.host = at.host;
    spec.headers = at.headers;
    spec.header_count = at.header_count;
    return ws_connect(at.http, &spec, &exec_ops, x, &x->ws, e);
}

/* A request has fetched the token. */
static void on_version(void *user, const struct kube_answer *answer)
{
    struct kube_exec *x = user;
    struct err e = answer->error.err;

    x->call = NULL;
    if (e.code || connect_now(x, &e) < 0)
        exec_fail(x, answer->error.status, e.code, e.msg);
}

static int begin(struct kube_exec *x, struct err *e)
{
    int r = connect_now(x, e);

    if (r == -EAGAIN)
        r = kube_send(x->client, &(struct kube_request){.path = STR("/version")}, on_version, x,
                      &x->call, e);
    return r;
}

static void on_deadline(struct loop_timer *t)
{
    struct kube_exec *x = container_of(t, struct kube_exec, deadline);

    if (x->ws)
        ws_cut(x->ws, ETIMEDOUT);
    else
        exec_fail(x, 0, ETIMEDOUT, "no connection in time");
}

/* --- life --- */

static int make_query(struct kube_exec *x, const struct kube_exec_spec *spec)
{
    AUTO_BUF(query, QUERY_MAX);
    int r = buf_addf(&query, "stdout=true&stderr=true%s", spec->has_stdin ? "&stdin=true" : "");

    if (r == 0 && spec->container.n)
        r = kube_query_add(&query, "container", spec->container);
    for (size_t i = 0; r == 0 && spec->argv[i]; i++)
        r = i < KUBE_EXEC_ARGS_MAX ? kube_query_add(&query, "command", str_of(spec->argv[i]))
                                   : -EMSGSIZE;
    if (r == 0) {
        x->query = arena_str(&x->arena, buf_str(&query));
        x->spec.ns = arena_str(&x->arena, spec->ns);
        x->spec.pod = arena_str(&x->arena, spec->pod);
    }
    return r == 0 && !(x->query.p && x->spec.ns.p && x->spec.pod.p) ? -ENOMEM : r;
}

int kube_exec_start(struct kube_client *c, const struct kube_exec_spec *spec,
                    struct kube_exec **ret, struct err *e)
{
    struct kube_exec *x = mem_new(struct kube_exec);
    uint32_t ms = spec->timeout_ms ? spec->timeout_ms : TIMEOUT_MS_USUAL;
    int r;

    x->client = c;
    x->spec = *spec;
    arena_init(&x->arena, TEXT_MAX);
    buf_init(&x->status, STATUS_MAX);
    r = make_query(x, spec);
    if (r < 0)
        (void)err_set(e, -r, "the command for a pod is too long");
    else
        r = begin(x, e);
    if (r < 0) {
        exec_free(x);
        return r;
    }
    loop_timer_after(kube_client_loop(c), &x->deadline, ms, on_deadline);
    *ret = x;
    return 0;
}

int kube_exec_write(struct kube_exec *x, struct str data)
{
    char channel = CHANNEL_STDIN;
    struct str pieces[] = {str_make(&channel, 1), data};

    if (!x->ws || ws_room(x->ws) == 0)
        return -EAGAIN;
    return ws_push(x->ws, WS_OP_BINARY, pieces, ARRAY_LEN(pieces));
}

int kube_exec_end_input(struct kube_exec *x)
{
    const char message[] = {(char)CHANNEL_CLOSE, CHANNEL_STDIN};

    if (!x->ws || !str_eq(ws_protocol(x->ws), STR("v5.channel.k8s.io")))
        return -EOPNOTSUPP;
    return ws_send(x->ws, WS_OP_BINARY, str_make(message, sizeof(message)));
}

void kube_exec_cancel(struct kube_exec *x)
{
    x->cancelled = true;
    if (x->ws)
        ws_cut(x->ws, ECANCELED); /* on_close frees it */
    else
        exec_free(x);
}
