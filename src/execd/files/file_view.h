/* file_view.h - a process that serves the routes of files from another place, or as someone else.
 *
 * There every path leads where the kernel says it leads, links too, and what may not be done there
 * fails: nothing has to be resolved or judged by hand. It is a copy of us, without an exec, that
 * serves from a loop of its own; requests are passed on to it. Its socket has a name in the network
 * namespace, which everyone shares: others who connect are not heard, and who takes that name when
 * it is gone is asked nothing. Nobody reads our memory in it: as we, it is not dumpable. Loop
 * thread only. */
#pragma once

#include "base/list.h"
#include "base/proc.h"
#include "net/http_proxy.h"

struct file_view;
struct loop;
struct reaper;

/* Those of one owner. */
struct file_views {
    struct loop *loop;
    struct reaper *reaper;
    struct list ending; /* were asked to, and are not gone yet */
};
void file_views_init(struct file_views *all, struct loop *loop, struct reaper *reaper);
/* Waits for those that are ending, as long as each was given. Blocks: no turn comes any more. */
void file_views_finish(struct file_views *all);

struct file_view_plan {    /* borrowed for the call; the process has its own copy */
    const char *workspace; /* all that may be asked for lies in it; NULL = anything */
    const char *over;      /* what its streams say when it is ended */
    struct proc_groups groups;
    /* In the process, with all of our descriptors: goes to its place, and gives up the rights that
     * it must not have. As proc_spec.prepare. */
    int (*enter)(const void *user, struct proc_step *ret_step);
    const void *user;
};

/* Returns while the process is on its way; what is passed on meanwhile waits. */
int file_view_start(struct file_views *all, const struct file_view_plan *plan,
                    struct file_view **ret, struct err *e) MUST_USE;
/* Ends the process, in a moment; one that hangs is killed. NULL is fine. */
void file_view_free(struct file_view *v);
/* False when it is gone, by itself or by somebody's hand. */
bool file_view_serves(const struct file_view *v);
/* Which step failed before it could serve: -errno; 0 when none did so far. Tells it once. */
int file_view_failure(struct file_view *v, struct err *e);

/* From the handler of a ROUTE_STREAM_BODY row: asks it for what stands behind `param`, one of the
 * row's, as it was written. Answers in every case, and `how` has the last word as ever; its
 * address, target and what is dropped are filled in here. */
void file_view_forward(const struct file_view *v, struct http_req *req, const char *param,
                       struct http_proxy_target *how);

/* Whether a path, absolute or from our working directory, lies within the workspace of the process
 * that serves this request; always, when it has none. */
bool file_view_allows(const struct http_req *req, struct str path);
