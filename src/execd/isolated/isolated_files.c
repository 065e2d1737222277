/* isolated_files.c - routes of a session's files and directories. Requests are forwarded to a
 * process in the box (file_view.h), which the first request starts. */
#include <errno.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/caps.h"
#include "base/mem.h"
#include "execd/core/answer.h"
#include "execd/files/file_routes.h"
#include "execd/files/file_view.h"
#include "execd/isolated/isolated_api.h"
#include "execd/isolated/isolated_api_internal.h"
#include "execd/isolated/isolated_filter.h"

/* The last event of its watches. */
static const char over[] = "the session has ended";

/* --- in the file process --- */

/* New files belong to the session's user. caps_limit() restores root's rights over files, which
 * setfsuid() drops. */
static void own_files(const struct child_user *user)
{
    if (!user->change)
        return;
    (void)setfsgid(user->gid);
    (void)setfsuid(user->uid);
}

/* A client that sends more than a layer may hold gets an error at once, not only after the next
 * measurement (isolated_gauge.h). */
static int limit_files(uint64_t bytes_max)
{
    struct rlimit most = {bytes_max, bytes_max};

    if (bytes_max == 0)
        return 0;
    (void)signal(SIGXFSZ, SIG_IGN);
    return setrlimit(RLIMIT_FSIZE, &most) < 0 ? -errno : 0;
}

static int enter_session(const void *user, struct proc_step *ret_step)
{
    const struct isolated *s = user;
    int r = box_enter_view(&s->place, ret_step);

    if (r < 0)
        return r;
    *ret_step = (struct proc_step){"limit the rights of", "the view"};
    (void)prctl(PR_SET_NAME, "session-files");
    own_files(&s->spec.user);
    r = limit_files(s->upper[0] ? s->spec.upper_bytes : 0);
    if (r >= 0)
        r = caps_limit(caps_sandbox);
    if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = -errno;
    return r < 0 ? r : isolated_filter_install();
}

/* --- in execd --- */

/* Restarts the process if it died. */
static struct file_view *view_of(struct isolated *s, struct err *e)
{
    struct file_view_plan plan = {
        .workspace = s->spec.workspace,
        .over = over,
        .groups = s->place.groups,
        .enter = enter_session,
        .user = s,
    };

    if (s->view && file_view_serves(s->view))
        return s->view;
    file_view_free(take_ptr(&s->view));
    if (file_view_start(isolated_views(s->all), &plan, &s->view, e) < 0)
        return NULL;
    return s->view;
}

/* Until then the session neither becomes idle nor can be committed. */
static void files_on_end(void *user)
{
    isolated_release(user);
}

static void files_on_fail(void *user, struct http_req *req, int status UNUSED,
                          const struct err *why)
{
    char ended[ISOLATED_WHY_MAX];

    if (isolated_why_ended(user, ended))
        answer_error(req, 413, "CONTENT_TOO_LARGE", "the session has ended: %s", ended);
    else
        answer_error(req, 500, "RUNTIME_ERROR", "the session's files cannot be reached: %s",
                     why->msg);
}

/* Only a watch gets a last event; for other requests the transfer is broken off. */
static void files_on_cut(void *user, struct http_req *req, struct str tail)
{
    struct isolated *s = user;

    directories_watch_cut(
        req, tail, s->state == ISOLATED_READY ? "the session's files cannot be reached" : over);
}

void isolated_files(struct http_req *req)
{
    struct isolated *s = isolated_need_living(req);
    struct file_view *v;
    struct http_proxy_target how = {
        .on_fail = files_on_fail,
        .on_cut = str_ends(str_of(req->route->path), STR("/watch")) ? files_on_cut : NULL,
        .on_end = files_on_end,
        .user = s,
    };
    struct err e = {0};

    if (!s)
        return;
    if (s->spec.mode == BOX_RO && req->head.method != HTTP_GET) {
        answer_error(req, 403, "INVALID_REQUEST_BODY", "the workspace is read-only: %s",
                     s->spec.workspace);
        return;
    }
    v = view_of(s, &e);
    if (!v) {
        files_on_fail(s, req, 500, &e);
        return;
    }
    isolated_hold(s);
    file_view_forward(v, req, "id", &how);
}
