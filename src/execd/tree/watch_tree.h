/* watch_tree.h - what happens to the files of a directory, or of a whole tree, by inotify(7).
 *
 * A directory that appears is watched first and looked through then, so that no file made in
 * between is missed; one found both ways is told once. Costs some 100 bytes and a watch of the
 * kernel's for each directory. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum { WATCH_DIRECTORIES_MAX = 8192, WATCH_SEEN_MAX = 1024 };

enum watch_kind {
    WATCH_CREATED,
    WATCH_MODIFIED, /* its content or its facts */
    WATCH_DELETED,
    WATCH_MOVED,
    WATCH_OVERFLOW, /* more happened than could be told: look for yourself */
    WATCH_GONE,     /* the directory itself; the last there is */
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
    int fd; /* to be waited for with EPOLLIN */
    bool recursive, gone;
    void (*on_event)(void *ctx, const struct watch_event *event);
    void *ctx;
    struct watch_node **nodes; /* in the order of their numbers, which grow */
    size_t count, room;
    struct watch_scan *scans, **scans_tail; /* directories to be looked through */
    struct watch_from {                     /* one half of a move */
        struct watch_node *up;
        char *name; /* NULL = none */
        uint32_t cookie;
        bool directory;
    } from;
    uint64_t seen[WATCH_SEEN_MAX]; /* told by a scan; the kernel may tell it, too */
    size_t seen_count;
    uint64_t last_modified; /* one of several in a row is enough */
};

/* Begins to watch. Nothing is told of what is there already. To be done with in any case. */
int watch_tree_open(struct watch_tree *t, const char *root, bool recursive,
                    void (*on_event)(void *ctx, const struct watch_event *event), void *ctx,
                    struct err *e) MUST_USE;
void watch_tree_done(struct watch_tree *t); /* zeroed is fine */

/* Tells some of what happened: 1 when there may be more, 0 when there is none for now, -errno when
 * it cannot go on. The first 0 says that all of the tree is being watched; a tree with too many
 * directories is -ENOSPC until then, and an overflow later. */
int watch_tree_step(struct watch_tree *t, struct err *e) MUST_USE;

const char *watch_tree_root(const struct watch_tree *t); /* as it was given; borrowed */

/* Whether half a move is held back, and its end: when no other half came within a moment, it led
 * elsewhere, and the file is told as deleted. */
bool watch_tree_waits(const struct watch_tree *t);
void watch_tree_flush(struct watch_tree *t);
