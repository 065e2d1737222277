/* watch_tree.h - reports changes in a directory or a whole tree, by inotify(7).
 *
 * A new directory is first watched and then scanned, so that no file created in between is missed;
 * a file found both ways is reported once. Each directory costs about 100 bytes and an inotify
 * watch. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"

enum { WATCH_DIRECTORIES_MAX = 8192, WATCH_SEEN_MAX = 1024 };

enum watch_kind {
    WATCH_CREATED,
    WATCH_MODIFIED, /* content or metadata */
    WATCH_DELETED,
    WATCH_MOVED,
    WATCH_OVERFLOW, /* events were lost: list the directory again */
    WATCH_GONE,     /* the root directory was removed; the last event */
};

struct watch_event { /* texts are borrowed */
    enum watch_kind kind;
    bool directory;
    struct str path; /* absolute */
    struct str from; /* of WATCH_MOVED */
};

struct watch_node;
struct watch_scan;

struct watch_tree {
    int fd; /* inotify; wait for EPOLLIN */
    bool recursive, gone;
    void (*on_event)(void *ctx, const struct watch_event *event);
    void *ctx;
    struct watch_node **nodes; /* sorted by watch descriptor, which only grows */
    size_t count, room;
    struct watch_scan *scans, **scans_tail; /* directories to be scanned */
    struct watch_from {                     /* the first half of a move */
        struct watch_node *up;
        char *name; /* NULL = none */
        uint32_t cookie;
        bool directory;
    } from;
    struct map seen;          /* entries reported by a scan, which inotify may report, too */
    struct buf last_modified; /* an entry: repeated modifications are reported once */
};

/* Begins to watch. Existing files are not reported. Call watch_tree_done in any case. */
int watch_tree_open(struct watch_tree *t, const char *root, bool recursive,
                    void (*on_event)(void *ctx, const struct watch_event *event), void *ctx,
                    struct err *e) MUST_USE;
void watch_tree_done(struct watch_tree *t); /* all zero is fine */

/* Reports some events: 1 when there may be more, 0 when there are none now, -errno when it cannot
 * continue. The first 0 means that the whole tree is watched. Too many directories are -ENOSPC
 * before that, and WATCH_OVERFLOW later. */
int watch_tree_step(struct watch_tree *t, struct err *e) MUST_USE;

const char *watch_tree_root(const struct watch_tree *t); /* as given; borrowed */

/* Whether the first half of a move is held back. If the second half does not follow soon, the
 * target is outside the tree: watch_tree_flush then reports the file as deleted. */
bool watch_tree_waits(const struct watch_tree *t);
void watch_tree_flush(struct watch_tree *t);
