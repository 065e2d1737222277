/* file_view.h - a process that serves the file routes from another root or under other ids.
 *
 * In it the kernel resolves every path, links too, and refuses what is not permitted: execd need
 * not check that itself. The process is a fork of execd without exec, with a loop of its own;
 * requests are forwarded to it. Its abstract unix socket is visible to the whole network namespace,
 * so it accepts connections only from execd (SO_PEERCRED), and execd sends nothing to another
 * process that takes the name later. Like execd it is not dumpable, so no other process reads its
 * memory. Loop thread only. */
#pragma once

#include "base/list.h"
#include "base/proc.h"
#include "net/http_proxy.h"

struct file_view;
struct loop;
struct reaper;

/* All views of one owner. */
struct file_views {
    struct loop *loop;
    struct reaper *reaper;
    struct list ending; /* asked to end, not yet reaped */
};
void file_views_init(struct file_views *all, struct loop *loop, struct reaper *reaper);
/* Waits for the ending ones, each up to its deadline. Blocks: call it after the loop has ended. */
void file_views_finish(struct file_views *all);

struct file_view_plan {    /* borrowed for the call; the process has a copy */
    const char *workspace; /* requests must stay within it; NULL = any path */
    const char *over;      /* last event of its streams when it ends */
    struct proc_groups groups;
    /* Called in the process, with all of execd's descriptors open: enters its root and drops its
     * privileges. Like proc_spec.prepare. */
    int (*enter)(const void *user, struct proc_step *ret_step);
    const void *user;
};

/* Returns before the process is ready; requests forwarded meanwhile wait. */
int file_view_start(struct file_views *all, const struct file_view_plan *plan,
                    struct file_view **ret, struct err *e) MUST_USE;
/* Ends the process soon; one that hangs is killed. NULL is fine. */
void file_view_free(struct file_view *v);
/* False when the process has exited or was killed. */
bool file_view_serves(const struct file_view *v);
/* -errno and a message of the step that failed before it could serve; 0 when none did so far.
 * Reports it once. */
int file_view_failure(struct file_view *v, struct err *e);

/* For the handler of a ROUTE_STREAM_BODY route: forwards the part of the path after the route's
 * parameter `param` (NULL: the whole path), undecoded. Always replies; failures go through the
 * callbacks of `how`, whose address, target and dropped headers are set here. */
void file_view_forward(const struct file_view *v, struct http_req *req, const char *param,
                       struct http_proxy_target *how);

/* Whether a path, absolute or relative to the working directory, is within the workspace of the
 * process that serves this request; always true without a workspace. */
bool file_view_allows(const struct http_req *req, struct str path);
/* The same, and replies when it is not. */
bool file_view_admits(struct http_req *req, struct str path);
