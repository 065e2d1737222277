/* isolated_api.c - routes that create, list, show and end sessions. */
#include "execd/isolated/isolated_api.h"

#include <errno.h>

#include "base/json_write.h"
#include "execd/core/answer.h"
#include "execd/core/routes.h"
#include "execd/isolated/isolated_api_internal.h"
#include "execd/isolated/isolated_filter.h"
#include "execd/isolated/isolated_request.h"
#include "version.h"

enum { ANSWER_BYTES_MAX = 64 << 10 };

static const char *const mode_names[] = {
    [BOX_RW] = "rw", [BOX_OVERLAY] = "overlay", [BOX_RO] = "ro"};
static const char *const profile_names[] = {
    [ISOLATED_STRICT] = "strict", [ISOLATED_BALANCED] = "balanced"};

static struct isolated_all *isolated_of(const struct http_req *req)
{
    return ((struct execd_api *)req->server_user)->isolated;
}

bool isolated_need(struct http_req *req)
{
    const char *why = NULL;

    if (isolated_available(isolated_of(req), &why))
        return true;
    answer_error(req, 503, "NOT_SUPPORTED", "isolated sessions are not available: %s", why);
    return false;
}

struct isolated *isolated_need_session(struct http_req *req)
{
    struct str id = answer_id(req);
    struct isolated *s = isolated_find(isolated_of(req), id);

    if (!s)
        answer_error(req, 404, "CONTEXT_NOT_FOUND", "isolated session not found: %.*s",
                     STR_ARG(id));
    return s;
}

struct isolated *isolated_need_living(struct http_req *req)
{
    struct isolated *s = isolated_need(req) ? isolated_need_session(req) : NULL;
    char why[ISOLATED_WHY_MAX];

    if (!s)
        return NULL;
    if (s->state == ISOLATED_READY && !s->alone)
        return s;
    if (s->state != ISOLATED_RETAINED)
        answer_error(req, 409, "SESSION_BUSY", "isolated session %s is being committed", s->id);
    else if (isolated_why_ended(s, why))
        answer_error(req, 413, "CONTENT_TOO_LARGE", "isolated session %s has ended: %s", s->id,
                     why);
    else
        answer_error(req, 404, "CONTEXT_NOT_FOUND", "isolated session %s has ended", s->id);
    return NULL;
}

/* --- answers --- */

void isolated_write_time(struct json_writer *w, struct str key, int64_t us)
{
    if (us) {
        json_member_time(w, key, us);
        return;
    }
    json_write_key(w, key);
    json_write_null(w);
}

static void write_artifacts(struct json_writer *w, const struct isolated *s)
{
    static const struct {
        struct str key;
        const char *name;
    } rows[] = {
        {STR_INIT("diff_url"),   "diff"  },
        {STR_INIT("commit_url"), "commit"},
    };
    char url[96];

    json_write_key(w, STR("artifacts"));
    if (s->spec.mode != BOX_OVERLAY) {
        json_write_null(w);
        return;
    }
    json_write_object(w);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)snprintf(url, sizeof(url), "/v1/isolated/session/%s/%s", s->id, rows[i].name);
        json_member_string(w, rows[i].key, str_of(url));
    }
    json_write_object_end(w);
}

static void write_workspace(struct json_writer *w, const struct isolated *s)
{
    json_member_string(w, STR("profile"), str_of(profile_names[s->spec.profile]));
    json_write_key(w, STR("workspace"));
    json_write_object(w);
    json_member_string(w, STR("path"), str_of(s->spec.workspace));
    json_member_string(w, STR("mode"), str_of(mode_names[s->spec.mode]));
    json_write_object_end(w);
}

/* Writes the spec twice: at top level for newer clients, in "isolation" for older ones. */
static void write_spec(struct json_writer *w, const struct isolated *s)
{
    json_write_key(w, STR("isolation"));
    json_write_object(w);
    write_workspace(w, s);
    json_write_object_end(w);
    write_workspace(w, s);
    json_write_key(w, STR("extra_writable"));
    json_write_array(w);
    for (size_t i = 0; i < s->spec.writable_count; i++)
        json_write_string(w, str_of(s->spec.writable[i]));
    json_write_array_end(w);
    json_member_bool(w, STR("share_net"), s->spec.share_net);
    if (s->spec.user.change) {
        json_member_u64(w, STR("uid"), s->spec.user.uid);
        json_member_u64(w, STR("gid"), s->spec.user.gid);
    }
    json_member_u64(w, STR("idle_timeout_seconds"), s->spec.idle_s);
}

static void write_state(struct json_writer *w, const struct isolated *s)
{
    char why[ISOLATED_WHY_MAX];

    json_member_string(w, STR("status"), str_of(s->state == ISOLATED_RETAINED ? "dead" : "active"));
    if (isolated_why_ended(s, why))
        json_member_string(w, STR("reason"), str_of(why));
    json_write_key(w, STR("idle_remaining_seconds"));
    if (s->spec.idle_s > 0)
        json_write_u64(w, s->state == ISOLATED_RETAINED ? 0 : isolated_idle_left_s(s));
    else
        json_write_null(w);
}

static void reply_session(struct http_req *req, const struct isolated *s, bool with_state)
{
    AUTO_BUF(body, ANSWER_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_string(&w, STR("session_id"), str_of(s->id));
    isolated_write_time(&w, STR("created_at"), s->created_us);
    if (with_state) {
        isolated_write_time(&w, STR("last_run_at"), s->last_run_us);
        write_state(&w, s);
    }
    write_spec(&w, s);
    write_artifacts(&w, s);
    json_write_object_end(&w);
    answer_written(req, 200, &w);
}

/* --- a new session --- */

static void create_on_ready(void *user, struct isolated *s, const struct err *why)
{
    struct http_req *req = user;

    req->ops = NULL;
    if (s)
        reply_session(req, s, false);
    else
        answer_error(req, 503, "NOT_SUPPORTED", "the session cannot be made here: %s", why->msg);
}

static void create_on_close(struct http_req *req, int error UNUSED)
{
    isolated_forget(req->user);
}

static const struct http_req_ops create_ops = {.on_close = create_on_close};

void post_isolated_session(struct http_req *req)
{
    struct isolated *s;
    struct err e = {0};

    if (!isolated_need(req))
        return;
    if (isolated_new(isolated_of(req), &s, &e) < 0) {
        answer_error(req, 503, "RUNTIME_ERROR", "%s", e.msg);
        return;
    }
    if (isolated_request_create(req, s) < 0) {
        isolated_drop(s);
        return;
    }
    req->ops = &create_ops;
    req->user = s;
    if (isolated_start(s, create_on_ready, req, &e) < 0) {
        req->ops = NULL;
        answer_error(req, 503, "NOT_SUPPORTED", "the session cannot be made here: %s", e.msg);
    }
}

void get_isolated_session(struct http_req *req)
{
    struct isolated *s = isolated_need_session(req);

    if (s)
        reply_session(req, s, true);
}

static void write_summary(void *user, const struct isolated *s)
{
    struct json_writer *w = user;

    json_write_object(w);
    json_member_string(w, STR("session_id"), str_of(s->id));
    isolated_write_time(w, STR("created_at"), s->created_us);
    /* Clients require a time; without any run, the session has been idle since its creation. */
    isolated_write_time(w, STR("last_run_at"), s->last_run_us ? s->last_run_us : s->created_us);
    write_state(w, s);
    json_write_object_end(w);
}

void get_isolated_sessions(struct http_req *req)
{
    AUTO_BUF(body, ANSWER_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_write_key(&w, STR("sessions"));
    json_write_array(&w);
    isolated_each(isolated_of(req), write_summary, &w);
    json_write_array_end(&w);
    json_write_object_end(&w);
    answer_written(req, 200, &w);
}

void delete_isolated_session(struct http_req *req)
{
    struct isolated *s = isolated_need(req) ? isolated_need_session(req) : NULL;

    if (!s)
        return;
    if (s->state == ISOLATED_STARTING) { /* a commit is restarting it, and holds it */
        answer_error(req, 409, "SESSION_BUSY", "isolated session %s is being committed", s->id);
        return;
    }
    if (s->state == ISOLATED_READY)
        isolated_end(s);
    else
        isolated_remove(s);
    answer_empty(req);
}

/* --- capabilities --- */

static void write_persist(struct json_writer *w, const struct isolated_all *all, bool overlay)
{
    json_write_key(w, STR("persist"));
    json_write_object(w);
    json_member_bool(w, STR("available"), overlay && isolated_can_persist(all));
    json_member_u64(w, STR("max_size_bytes_default"), isolated_upper_bytes(all));
    json_member_u64(w, STR("max_size_bytes_limit"), isolated_conf(all)->upper_bytes_max);
    json_member_u64(w, STR("retain_seconds_default"), ISOLATED_RETAIN_S);
    json_write_object_end(w);
}

static void write_list(struct json_writer *w, struct str key, struct str items)
{
    struct str item;

    json_write_key(w, key);
    json_write_array(w);
    while (str_cut(&items, ',', &item))
        if (item.n > 0)
            json_write_string(w, item);
    json_write_array_end(w);
}

static void reply_capabilities(struct http_req *req, bool overlay)
{
    const struct isolated_all *all = isolated_of(req);
    AUTO_BUF(body, ANSWER_BYTES_MAX);
    char digest[ISOLATED_FILTER_DIGEST_MAX];
    const char *why = NULL;
    struct json_writer w;
    bool available = isolated_available(all, &why);

    isolated_filter_digest(digest);
    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_bool(&w, STR("available"), available);
    if (!available)
        json_member_string(&w, STR("message"), str_of(why));
    json_member_string(&w, STR("isolator"), str_of("execd"));
    json_member_string(&w, STR("version"), str_of(OPENSANDBOX_VERSION));
    write_list(&w, STR("profiles"), STR("strict,balanced"));
    write_list(&w, STR("workspace_modes"),
               !available ? STR("")
               : overlay  ? STR("rw,overlay,ro")
                          : STR("rw,ro"));
    write_list(&w, STR("allowed_workspaces"), STR("/"));
    write_list(&w, STR("allowed_extra_writable_prefixes"),
               str_of(isolated_conf(all)->allowed_writable));
    json_member_bool(&w, STR("share_net_overridable"), true);
    json_member_bool(&w, STR("setpriv_available"), available);
    json_member_bool(&w, STR("userns_available"), false);
    json_member_bool(&w, STR("commit_supported"), available && overlay);
    json_member_bool(&w, STR("diff_supported"), available && overlay);
    json_member_string(&w, STR("seccomp_profile_sha256"), str_of(digest));
    write_persist(&w, all, available && overlay);
    json_write_object_end(&w);
    answer_written(req, 200, &w);
}

static int probe_start(struct http_req *req, bool overlay, struct err *e);

/* The session was created only for this probe. */
static void probe_end(struct http_req *req, struct isolated *s, const struct err *why, bool overlay)
{
    req->ops = NULL;
    if (s)
        isolated_end(s);
    else
        isolated_set_unavailable(isolated_of(req), why->msg);
    reply_capabilities(req, overlay);
}

static void probe_on_plain(void *user, struct isolated *s, const struct err *why)
{
    probe_end(user, s, why, false);
}

/* It may still work without an overlay. */
static void probe_on_overlay(void *user, struct isolated *s, const struct err *why)
{
    if (s || probe_start(user, false, NULL) < 0)
        probe_end(user, s, why, s != NULL);
}

static void probe_on_close(struct http_req *req, int error UNUSED)
{
    isolated_forget(req->user);
}

static const struct http_req_ops probe_ops = {.on_close = probe_on_close};

static int probe_start(struct http_req *req, bool overlay, struct err *e)
{
    struct isolated *s;
    int r = isolated_new(isolated_of(req), &s, e);

    if (r < 0)
        return r;
    s->spec = (struct isolated_spec){
        .workspace = "/etc", /* only read, at most; nothing can be mounted over / */
        .mode = overlay ? BOX_OVERLAY : BOX_RW,
        .upper_bytes = 1 << 20,
        .share_net = true,
    };
    r = isolated_open_workspace(s);
    if (r < 0) {
        isolated_drop(s);
        return err_sys(e, -r, "open /etc");
    }
    req->ops = &probe_ops;
    req->user = s;
    r = isolated_start(s, overlay ? probe_on_overlay : probe_on_plain, req, e);
    if (r < 0)
        req->ops = NULL;
    return r;
}

/* Probes on each request: an attempt that failed earlier, for example without memory, may succeed
 * now. */
void get_isolated_capabilities(struct http_req *req)
{
    struct isolated_all *all = isolated_of(req);
    const char *why = NULL;
    struct err e = {0};
    int r;

    isolated_set_unavailable(all, "");
    r = isolated_available(all, &why) ? probe_start(req, true, &e) : -ENOTSUP;
    if (r >= 0)
        return;
    if (r == -EAGAIN) { /* it works, but the limit of sessions is reached */
        answer_error(req, 503, "RUNTIME_ERROR", "%s", e.msg);
        return;
    }
    if (r != -ENOTSUP)
        isolated_set_unavailable(all, e.msg);
    reply_capabilities(req, false);
}
