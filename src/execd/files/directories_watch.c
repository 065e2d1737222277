/* directories_watch.c - GET /directories/watch?path=&recursive=: reports changes of files as a
 * stream of events in the form of events.h.
 *
 *   {"type":"init","text":"/work","timestamp":1760000000000}
 *   {"type":"create","path":"/work/a","timestamp":...}
 *   {"type":"move","path":"/work/b","from":"/work/a","timestamp":...}
 *   {"type":"overflow","timestamp":...}
 *   {"type":"error",...}
 *
 * - init: everything is watched from here on.
 * - create, modify, delete, move: events about a directory carry "directory":true.
 * - overflow: events were lost; the client should list the directory.
 * - error: the end and its reason: the directory, its session or execd is gone. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/core/answer.h"
#include "execd/core/events.h"
#include "execd/core/path.h"
#include "execd/core/routes.h"
#include "execd/files/file_routes.h"
#include "execd/tree/fs.h"
#include "execd/tree/slice.h"
#include "execd/tree/watch_tree.h"
#include "net/sse.h"

enum {
    EVENT_BYTES = 64 << 10, /* two paths with every byte as \u00xx */
    PING_MS = 3000,
    HALF_MOVE_NS = 20 * 1000 * 1000,
};

struct directory_watch {
    struct sse sse;
    struct slice slice;
    struct loop_io io;
    struct loop_timer half; /* limits the wait for the second half of a move */
    struct watch_tree tree;
    struct directory_watch **list, *next, **back; /* all watches of this process */
    bool begun, over;
};

static struct loop *watch_loop(struct directory_watch *w)
{
    return http_req_loop(w->sse.req);
}

/* --- events --- */

static int format_event(struct buf *out, const struct watch_event *event)
{
    static const char *const types[] = {
        [WATCH_CREATED] = "create", [WATCH_MODIFIED] = "modify",   [WATCH_DELETED] = "delete",
        [WATCH_MOVED] = "move",     [WATCH_OVERFLOW] = "overflow", [WATCH_GONE] = "delete",
    };
    struct json_writer w;
    int r;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("type"), str_of(types[event->kind]));
    if (event->path.p)
        json_member_string(&w, STR("path"), event->path);
    if (event->from.p)
        json_member_string(&w, STR("from"), event->from);
    if (event->directory)
        json_member_bool(&w, STR("directory"), true);
    json_member_i64(&w, STR("timestamp"), time_wall_us() / TIME_US_PER_MS);
    json_write_object_end(&w);
    r = json_write_end(&w);
    return r < 0 ? r : buf_add(out, STR("\n\n"));
}

static void watch_on_event(void *ctx, const struct watch_event *event)
{
    struct directory_watch *w = ctx;
    AUTO_BUF(line, EVENT_BYTES);

    if (format_event(&line, event) == 0)
        (void)sse_push_bytes(&w->sse, buf_str(&line));
}

static void watch_end(struct directory_watch *w, const char *why)
{
    AUTO_BUF(line, EVENT_BYTES);

    w->over = true;
    if (event_error(&line, "WatchError", why, why, NULL) == 0)
        (void)sse_push_bytes(&w->sse, buf_str(&line));
    sse_end(&w->sse, 0);
}

static void watch_ping(struct sse *s)
{
    AUTO_BUF(line, EVENT_BYTES);

    if (event_ping(&line) == 0)
        (void)sse_send_bytes(s, buf_str(&line));
}

/* --- the work --- */

static bool watch_step(struct slice *s);

/* Reads more events: the second half of a move may be among them. */
static void watch_go_on(struct directory_watch *w)
{
    loop_timer_stop(watch_loop(w), &w->half);
    if (!w->over)
        slice_start(&w->slice, watch_loop(w), watch_step);
}

static void watch_on_ready(struct loop_io *io, uint32_t events UNUSED)
{
    struct directory_watch *w = container_of(io, struct directory_watch, io);

    loop_io_set(watch_loop(w), io, 0); /* until all events were sent */
    watch_go_on(w);
}

static void watch_on_half(struct loop_timer *t)
{
    struct directory_watch *w = container_of(t, struct directory_watch, half);

    watch_tree_flush(&w->tree);
}

/* Everything is watched: from here on the client gets all events. */
static void watch_begin(struct directory_watch *w, const char *root)
{
    AUTO_BUF(line, EVENT_BYTES);

    w->begun = true;
    if (event_init(&line, root) == 0 && event_ping(&line) == 0)
        (void)sse_push_bytes(&w->sse, buf_str(&line));
    sse_set_ping(&w->sse, PING_MS);
}

static void watch_fail(struct directory_watch *w, const struct err *e)
{
    if (w->begun) {
        watch_end(w, e->msg);
        return;
    }
    w->over = true;
    answer_fs(w->sse.req, -e->code, "%s", e->msg);
}

static bool watch_step(struct slice *s)
{
    struct directory_watch *w = container_of(s, struct directory_watch, slice);
    struct loop *loop = watch_loop(w);
    struct err e = {0};
    int r;

    if (w->over || (w->begun && sse_is_full(&w->sse)))
        return false; /* on_drain continues; meanwhile events queue in the kernel */
    if (!w->begun && !w->tree.scans)
        watch_begin(w, watch_tree_root(&w->tree));
    r = watch_tree_step(&w->tree, &e);
    if (r > 0 && !w->tree.gone)
        return true;
    if (r < 0) {
        watch_fail(w, &e);
    } else if (w->tree.gone) {
        watch_end(w, "the directory is gone");
    } else {
        if (watch_tree_waits(&w->tree))
            loop_timer_set(loop, &w->half, loop_now_ns(loop) + HALF_MOVE_NS, watch_on_half);
        loop_io_set(loop, &w->io, EPOLLIN);
    }
    return false;
}

/* --- the request --- */

static void watch_on_drain(struct sse *s)
{
    watch_go_on(container_of(s, struct directory_watch, sse));
}

static void watch_on_close(struct sse *s, int error UNUSED)
{
    struct directory_watch *w = container_of(s, struct directory_watch, sse);
    struct loop *loop = watch_loop(w);

    slice_stop(&w->slice);
    loop_timer_stop(loop, &w->half);
    if (w->io.on_ready)
        loop_io_stop(loop, &w->io);
    watch_tree_done(&w->tree);
    *w->back = w->next;
    if (w->next)
        w->next->back = w->back;
    free(w);
}

static const struct sse_ops watch_ops = {
    .on_drain = watch_on_drain,
    .on_ping = watch_ping,
    .on_close = watch_on_close,
};

static void watch_open(struct http_req *req, const char *root, bool recursive)
{
    struct execd_api *api = req->server_user;
    struct directory_watch *w = mem_new(struct directory_watch);
    struct err e = {0};

    w->next = api->watches;
    w->back = &api->watches;
    if (w->next)
        w->next->back = &w->next;
    api->watches = w;
    sse_begin(&w->sse, req, &watch_ops);
    if (watch_tree_open(&w->tree, root, recursive, watch_on_event, w, &e) < 0) {
        watch_fail(w, &e);
        return;
    }
    if (loop_io_start(watch_loop(w), &w->io, w->tree.fd, 0, watch_on_ready, &e) < 0) {
        w->io.on_ready = NULL;
        watch_fail(w, &e);
        return;
    }
    watch_go_on(w);
}

void directories_watch(struct http_req *req)
{
    AUTO_BUF(root, EXECD_PATH_BYTES_MAX);
    struct str given, recursive = STR("");
    struct err e = {0};
    struct stat st;
    int r;

    if (!answer_query_need(req, STR("path"), &given))
        return;
    if (path_resolve(given, (const char *const *)environ, &root, &e) < 0) {
        answer_fs(req, -e.code, "%s", e.msg);
        return;
    }
    r = fs_lstat(root.p, &st);
    if (r < 0)
        answer_fs(req, r, "lstat %s: %s", root.p, fs_text(-r));
    else if (!S_ISDIR(st.st_mode))
        answer_error(req, 400, "INVALID_REQUEST_BODY", "path is not a directory: %s", root.p);
    else
        watch_open(req, root.p,
                   answer_query(req, STR("recursive"), &recursive) == 0 &&
                       str_eq(recursive, STR("true")));
}

void directories_watch_end_all(struct execd_api *api, const char *why)
{
    struct directory_watch *next;

    for (struct directory_watch *w = api->watches; w; w = next) {
        next = w->next;
        if (w->over)
            continue;
        if (w->begun) {
            watch_end(w, why);
        } else {
            w->over = true;
            answer_error(w->sse.req, 500, "RUNTIME_ERROR", "%s", why);
        }
    }
}

/* Terminates a truncated event first, so that the last one is an event of its own. */
void directories_watch_cut(struct http_req *req, struct str tail, const char *why)
{
    AUTO_BUF(line, EVENT_BYTES);
    int r = tail.n == 0 || str_eq(tail, STR("\n\n")) ? 0 : buf_add(&line, STR("\n\n"));

    if (r >= 0)
        r = event_error(&line, "WatchError", why, why, NULL);
    if (r >= 0)
        r = http_reply_push(req, buf_str(&line));
    http_reply_end(req, r < 0 ? -r : 0);
}
