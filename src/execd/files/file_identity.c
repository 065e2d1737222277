#include "execd/files/file_identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/mem.h"
#include "execd/core/answer.h"
#include "execd/core/child.h"
#include "execd/core/routes.h"
#include "execd/core/users.h"
#include "execd/files/file_routes.h"
#include "execd/files/file_view.h"

enum {
    IDLE_MS = 60 * 1000,
    ID_MAX = UINT32_MAX - 1, /* UINT32_MAX means "unset" to the kernel */
};

/* The last event of its watches: a process with active requests ends only with execd. */
static const char over[] = "execd is ending";

struct identities {
    struct loop *loop;
    const struct child_place *place;
    struct file_views views;
    struct list all; /* least recently used first */
    size_t count;
};

/* One process and its ids. It can be found until it is retired. */
struct identity {
    struct list link;
    struct identities *of;
    char name[sizeof("uid 4294967294, gid 4294967294")];
    char home[USER_HOME_BYTES_MAX + 1];
    struct child_user user;
    gid_t *groups;
    bool usual; /* the sandbox's own user: execd's variables and directory are its, too */
    struct file_view *view; /* NULL: retired */
    struct err failure;     /* of a process that never served */
    unsigned users;         /* active requests */
    struct loop_timer idle;
};

/* --- in the process --- */

/* A process without the privilege to drop groups keeps execd's: false if it has one that the
 * account has not. */
static bool has_no_other_groups(const struct child_user *user)
{
    gid_t held[USER_GROUPS_MAX];
    int count = getgroups(ARRAY_LEN(held), held);

    for (int i = 0; i < count; i++) {
        bool given = held[i] == user->gid;

        for (size_t k = 0; k < user->group_count && !given; k++)
            given = held[i] == user->groups[k];
        if (!given)
            return false;
    }
    return count >= 0;
}

/* Keeps no variable of execd; HOME is needed to expand paths. */
static int replace_environment(const struct identity *id)
{
    if (clearenv() != 0 || setenv("HOME", id->home, 1) < 0)
        return -ENOMEM;
    return 0;
}

static int enter_identity(const void *user, struct proc_step *ret_step)
{
    static const struct child_user as_we_are = {.keep = true};
    const struct identity *id = user;
    int r = child_settle(id->of->place, &as_we_are, id->usual ? NULL : "/", id->name, ret_step);

    if (r < 0)
        return r;
    *ret_step = (struct proc_step){"become", id->name};
    r = child_set_ids(&id->user);
    if (r < 0)
        return r;
    *ret_step = (struct proc_step){"leave execd's groups for", id->name};
    if (!has_no_other_groups(&id->user))
        return -EPERM;
    *ret_step = (struct proc_step){"limit the rights of", id->name};
    (void)prctl(PR_SET_NAME, "user-files");
    if (id->user.uid != 0)
        r = caps_set(0);
    if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = -errno;
    return r < 0 || id->usual ? r : replace_environment(id);
}

/* --- one identity --- */

static void identity_free(struct identity *id)
{
    free(id->groups);
    free(id);
}

/* It is not found any more; active requests still use it. */
static void identity_retire(struct identity *id)
{
    if (!id->view)
        return;
    (void)file_view_failure(id->view, &id->failure);
    file_view_free(take_ptr(&id->view));
    loop_timer_stop(id->of->loop, &id->idle);
    list_remove(&id->link);
    id->of->count--;
}

static void identity_drop(struct identity *id)
{
    identity_retire(id);
    if (id->users == 0)
        identity_free(id);
}

static void identity_on_idle(struct loop_timer *t)
{
    identity_drop(container_of(t, struct identity, idle));
}

static void identity_hold(struct identity *id)
{
    id->users++;
    loop_timer_stop(id->of->loop, &id->idle);
    list_move(&id->of->all, &id->link);
}

static void identity_release(void *user)
{
    struct identity *id = user;

    id->users--;
    if (id->users > 0)
        return;
    if (id->view)
        loop_timer_after(id->of->loop, &id->idle, IDLE_MS, identity_on_idle);
    else
        identity_free(id);
}

/* Looks up the account anew. A uid without an account is valid: it has no groups, and "/" as home.
 */
static struct identity *identity_new(struct identities *all, uint32_t uid, uint32_t gid, bool usual,
                                     struct err *e)
{
    struct user u;
    gid_t *groups = NULL;
    size_t count = 0;
    bool known = user_by_uid(uid, &u) == 0;
    struct identity *id;
    int r;

    if (known) {
        u.gid = gid;
        r = user_groups(&u, &groups, &count);
        if (r < 0) {
            (void)err_sys(e, -r, "read the groups of uid %u", uid);
            return NULL;
        }
    }
    id = mem_new(struct identity);
    *id = (struct identity){.of = all, .groups = groups, .usual = usual};
    id->user = (struct child_user){
        .change = true, .uid = uid, .gid = gid, .groups = groups, .group_count = count};
    (void)snprintf(id->name, sizeof(id->name), "uid %u, gid %u", uid, gid);
    (void)snprintf(id->home, sizeof(id->home), "%s", known && u.home[0] ? u.home : "/");
    return id;
}

static bool identity_is(const struct identity *a, const struct identity *b)
{
    return a->usual == b->usual && a->user.uid == b->user.uid && a->user.gid == b->user.gid &&
           a->user.group_count == b->user.group_count && strcmp(a->home, b->home) == 0 &&
           (a->user.group_count == 0 ||
            memcmp(a->groups, b->groups, a->user.group_count * sizeof(gid_t)) == 0);
}

/* --- all identities --- */

void identities_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                    struct identities **ret)
{
    struct identities *all = mem_new(struct identities);

    *all = (struct identities){.loop = loop, .place = place};
    file_views_init(&all->views, loop, reaper);
    list_init(&all->all);
    *ret = all;
}

void identities_end(struct identities *all)
{
    for (struct list *at = all->all.next, *next; at != &all->all; at = next) {
        next = at->next;
        identity_drop(container_of(at, struct identity, link));
    }
}

void identities_free(struct identities *all)
{
    if (!all)
        return;
    identities_end(all);
    file_views_finish(&all->views);
    free(all);
}

static struct identity *identities_find(struct identities *all, const struct identity *wanted)
{
    for (struct list *at = all->all.next; at != &all->all; at = at->next) {
        struct identity *id = container_of(at, struct identity, link);

        if (identity_is(id, wanted))
            return id;
    }
    return NULL;
}

/* Drops the least recently used identity without active requests. */
static int identities_make_room(struct identities *all, struct err *e)
{
    if (all->count < IDENTITIES_MAX)
        return 0;
    for (struct list *at = all->all.next; at != &all->all; at = at->next) {
        struct identity *id = container_of(at, struct identity, link);

        if (id->users > 0)
            continue;
        identity_drop(id);
        return 0;
    }
    return err_set(e, EAGAIN,
                   "%d identities are in use, and no more can be: try again when one of "
                   "their requests has ended",
                   IDENTITIES_MAX);
}

static int identity_start(struct identity *id, struct err *e)
{
    struct file_view_plan plan = {
        .over = over,
        .groups = id->of->place->groups,
        .enter = enter_identity,
        .user = id,
    };
    int r = identities_make_room(id->of, e);

    if (r >= 0)
        r = file_view_start(&id->of->views, &plan, &id->view, e);
    if (r < 0)
        return r;
    list_push(&id->of->all, &id->link);
    id->of->count++;
    return 0;
}

/* The existing process, unless it died; else a new one. */
static struct identity *identities_get(struct identities *all, uint32_t uid, uint32_t gid,
                                       bool usual, struct err *e)
{
    struct identity *id = identity_new(all, uid, gid, usual, e);
    struct identity *found = id ? identities_find(all, id) : NULL;

    if (found && file_view_serves(found->view)) {
        identity_free(id);
        return found;
    }
    if (found)
        identity_drop(found);
    if (!id || identity_start(id, e) >= 0)
        return id;
    identity_free(id);
    return NULL;
}

/* --- requests --- */

static void answer_failure(struct http_req *req, const struct err *e)
{
    if (e->code == EAGAIN)
        answer_error(req, 503, "RUNTIME_ERROR", "%s", e->msg);
    else
        answer_error(req, 503, "NOT_SUPPORTED", "files cannot be reached as this identity: %s",
                     e->msg);
}

/* The process could not change its ids, or was killed. */
static void identity_on_fail(void *user, struct http_req *req, int status UNUSED,
                             const struct err *why)
{
    struct identity *id = user;

    if (id->view && (file_view_failure(id->view, &id->failure) < 0 || !file_view_serves(id->view)))
        identity_retire(id);
    if (id->failure.code)
        answer_failure(req, &id->failure);
    else
        answer_error(req, 500, "RUNTIME_ERROR", "the files of %s cannot be reached: %s", id->name,
                     why->msg);
}

static void identity_on_cut(void *user, struct http_req *req, struct str tail)
{
    const struct identity *id = user;

    directories_watch_cut(req, tail, id->view ? "the files cannot be reached" : over);
}

static bool need_id(struct http_req *req, const char *param, uint32_t *ret)
{
    struct str text = http_req_param(req, param);
    uint64_t id;

    if (str_to_u64_range(text, 0, ID_MAX, &id) < 0) {
        answer_error(req, 400, "INVALID_REQUEST_BODY",
                     "%s must be a decimal number from 0 to %u, not %.*s", param, ID_MAX,
                     STR_ARG(text));
        return false;
    }
    *ret = (uint32_t)id;
    return true;
}

/* `param` is the parameter that the path in the view follows; NULL: the whole path. */
static void forward_as(struct http_req *req, uint32_t uid, uint32_t gid, const char *param)
{
    const struct execd_api *api = req->server_user;
    struct http_proxy_target how = {
        .on_fail = identity_on_fail,
        .on_cut = str_ends(str_of(req->route->path), STR("/watch")) ? identity_on_cut : NULL,
        .on_end = identity_release,
    };
    struct err e = {0};
    struct identity *id = identities_get(api->identities, uid, gid, !param, &e);

    if (!id) {
        answer_failure(req, &e);
        return;
    }
    how.user = id;
    identity_hold(id);
    file_view_forward(id->view, req, param, &how);
}

void identity_files(struct http_req *req)
{
    uint32_t uid, gid;

    if (need_id(req, "uid", &uid) && need_id(req, "gid", &gid))
        forward_as(req, uid, gid, "gid");
}

void usual_files(struct http_req *req)
{
    const struct child_user *user = usual_user(req);

    forward_as(req, user->uid, user->gid, NULL);
}
