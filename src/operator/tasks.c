/* tasks.c - requests to the task executors of pods. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "net/http_client.h"
#include "operator/names.h"
#include "operator/operator.h"

enum { TASK_ANSWER_MAX = 1 << 20, TASK_NAME_MAX = 300, TASK_CALL_MS = 3000 };

struct task_call {
    struct operator* op;
    struct buf body;
    char task[TASK_NAME_MAX];
    struct loop_timer deadline;
    struct http_call *call;
    void (*on_done)(void *user, enum task_state state, bool reached);
    void *user;
};

static void call_done(struct task_call *c, enum task_state state, bool reached)
{
    void (*on_done)(void *, enum task_state, bool) = c->on_done;
    void *user = c->user;

    if (!reached)
        c->op->stats.task_failures++;
    loop_timer_stop(c->op->loop, &c->deadline);
    buf_done(&c->body);
    free(c);
    on_done(user, state, reached);
}

static ssize_t on_body(struct http_call *call, struct str piece)
{
    struct task_call *c = call->user;
    int r = buf_add(&c->body, piece);

    return r < 0 ? r : (ssize_t)piece.n;
}

static void on_end(struct http_call *call, int error)
{
    struct task_call *c = call->user;
    AUTO_ARENA(arena, TASK_ANSWER_MAX * 8);
    struct json *answer;

    if (error || call->head.status != 200 ||
        json_parse(&arena, buf_str(&c->body), NULL, &answer, NULL) < 0 ||
        answer->type != JSON_ARRAY)
        call_done(c, TASK_UNKNOWN, false);
    else
        call_done(c, task_state_of(answer, str_of(c->task)), true);
}

static void on_late(struct loop_timer *t)
{
    struct task_call *c = container_of(t, struct task_call, deadline);

    http_call_cancel(c->call);
    call_done(c, TASK_UNKNOWN, false);
}

int operator_set_tasks(struct operator* op, const struct write *write, struct str task,
                       void (*on_done)(void *user, enum task_state state, bool reached), void *user)
{
    static const struct http_call_ops ops = {.on_body = on_body, .on_end = on_end};
    static const struct http_header headers[] = {
        {STR_INIT("Content-Type"), STR_INIT("application/json")}
    };
    struct task_call *c;
    struct sock_addr addr;
    char host[128];
    bool v6 = str_find(write->address, ':') < write->address.n;

    (void)snprintf(host, sizeof(host), v6 ? "[%.*s]:%d" : "%.*s:%d", STR_ARG(write->address),
                   TASK_EXECUTOR_PORT);
    if (sock_addr_parse(str_of(host), &addr, NULL) < 0)
        return -EINVAL;
    c = mem_new(struct task_call);
    c->op = op;
    c->on_done = on_done;
    c->user = user;
    buf_init(&c->body, TASK_ANSWER_MAX);
    if (str_copy(c->task, sizeof(c->task), task) < 0 ||
        http_call_start(op->http,
                        &(struct http_call_spec){.addr = &addr,
                                                 .method = HTTP_POST,
                                                 .target = STR("/setTasks"),
                                                 .host = str_of(host),
                                                 .headers = headers,
                                                 .header_count = 1,
                                                 .body = write->body,
                                                 .head_ms = TASK_CALL_MS,
                                                 .ops = &ops,
                                                 .user = c},
                        &c->call, NULL) < 0) {
        free(c);
        return -EIO;
    }
    loop_timer_after(op->loop, &c->deadline, TASK_CALL_MS, on_late);
    return 0;
}
