#include "taskexec/api.h"

#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "base/url.h"

enum { BACKLOG = 64, BODY_MAX = 8 << 20, ANSWER_MAX = 64 << 20, CONNECTIONS_MAX = 256 };

static void refuse(struct http_req *req, int status, const char *message)
{
    char code[64];

    if (str_copy(code, sizeof(code), http_status_reason(status)) < 0)
        code[0] = '\0';
    http_reply_error(req, status, code, "%s", message);
}

static void reply_tasks(struct http_req *req, int status, const struct task *one)
{
    struct task_store *s = req->server_user;
    AUTO_BUF(out, ANSWER_MAX);
    struct json_writer w;

    json_write_begin(&w, &out);
    if (one)
        task_write(&w, one);
    else
        task_store_write(&w, s);
    if (json_write_end(&w) < 0)
        refuse(req, 500, "the answer is too large");
    else
        http_reply(req, status, STR("application/json"), buf_str(&out));
}

static void set_tasks(struct http_req *req)
{
    struct task_store *s = req->server_user;
    AUTO_ARENA(arena, BODY_MAX * 8);
    struct err e = {0};
    struct json *wanted;

    if (json_parse(&arena, req->body, NULL, &wanted, &e) < 0) {
        refuse(req, 400, e.msg);
        return;
    }
    if (wanted->type != JSON_ARRAY) {
        refuse(req, 400, "expected an array of tasks");
        return;
    }
    if (task_store_set(s, wanted, &e) < 0)
        refuse(req, 500, e.msg);
    else
        reply_tasks(req, 200, NULL);
}

static void get_tasks(struct http_req *req)
{
    task_store_tick(req->server_user);
    reply_tasks(req, 200, NULL);
}

static void add_task(struct http_req *req)
{
    struct task_store *s = req->server_user;
    AUTO_ARENA(arena, BODY_MAX * 8);
    struct err e = {0};
    struct json *object;
    struct task *t;
    struct str name;

    if (json_parse(&arena, req->body, NULL, &object, &e) < 0) {
        refuse(req, 400, e.msg);
        return;
    }
    if (json_to_str(json_get(object, STR("name")), &name) < 0 || !name.n) {
        refuse(req, 400, "a task needs a name");
        return;
    }
    if (task_create(s, object, &t, &e) < 0)
        refuse(req, 500, e.msg);
    else
        reply_tasks(req, 201, t);
}

static struct task *task_of(struct http_req *req)
{
    struct str raw = http_req_param(req, "id");
    AUTO_BUF(name, TASK_NAME_MAX + 1);

    if (url_decode(raw, 0, &name) < 0)
        return NULL;
    return task_find(req->server_user, buf_str(&name));
}

static void get_task(struct http_req *req)
{
    struct task *t;

    task_store_tick(req->server_user);
    t = task_of(req);
    if (t)
        reply_tasks(req, 200, t);
    else
        refuse(req, 404, "there is no such task");
}

static void delete_task(struct http_req *req)
{
    struct task *t = task_of(req);
    struct err e = {0};

    if (t && task_delete(req->server_user, t, &e) < 0)
        refuse(req, 500, e.msg);
    else
        http_reply(req, 204, STR(""), STR(""));
}

/* GET /tasks/{id}/logs/{stream}: stdout or stderr, also in ranges of bytes. */
static void get_log(struct http_req *req)
{
    struct task_store *s = req->server_user;
    struct task *t = task_of(req);
    struct str stream = http_req_param(req, "stream");
    bool is_error = str_eq(stream, STR("stderr"));
    auto_fd dir = -EBADF;
    int fd;

    if (!t || (!is_error && !str_eq(stream, STR("stdout")))) {
        refuse(req, 404, t ? "a task has the logs stdout and stderr" : "there is no such task");
        return;
    }
    dir = fd_open_at(s->dir, t->name.p, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, NULL);
    fd = dir < 0 ? dir
                 : fd_open_at(dir, is_error ? "stderr.log" : "stdout.log", O_RDONLY | O_NONBLOCK, 0,
                              PATH_STRICT, NULL);
    if (fd < 0)
        refuse(req, 404, "the task has not written that log yet");
    else
        http_reply_file(req, fd, STR("text/plain; charset=utf-8"));
}

static void health(struct http_req *req)
{
    http_reply(req, 200, STR("application/json"), STR("{\"status\":\"healthy\"}"));
}

#define ROUTE(method, where, what, body)                                                           \
    {                                                                                              \
        .methods = HTTP_BIT(method), .path = (where), .handler = (what), .body_bytes_max = (body)  \
    }
static const struct http_route routes[] = {
    ROUTE(HTTP_POST, "/setTasks", set_tasks, BODY_MAX),
    ROUTE(HTTP_GET, "/getTasks", get_tasks, 0),
    ROUTE(HTTP_POST, "/tasks", add_task, BODY_MAX),
    ROUTE(HTTP_GET, "/tasks/{id}", get_task, 0),
    ROUTE(HTTP_DELETE, "/tasks/{id}", delete_task, 0),
    ROUTE(HTTP_GET, "/tasks/{id}/logs/{stream}", get_log, 0),
    ROUTE(HTTP_GET, "/health", health, 0),
};

int api_start(struct loop *loop, struct task_store *store, const char *listen,
              struct http_server **ret, struct err *e)
{
    struct http_server_conf conf = {.routes = routes,
                                    .route_count = ARRAY_LEN(routes),
                                    .user = store,
                                    .connections_max = CONNECTIONS_MAX};
    struct sock_addr addr;
    int fd, r = sock_addr_parse(str_of(listen), &addr, e);

    if (r < 0)
        return err_wrap(e, r, "--listen-addr '%s'", listen);
    fd = sock_listen(&addr, BACKLOG, e);
    if (fd < 0)
        return fd;
    r = http_server_new(loop, &conf, ret, e);
    if (r < 0) {
        fd_close(fd);
        return r;
    }
    return http_server_listen(*ret, fd, e);
}
