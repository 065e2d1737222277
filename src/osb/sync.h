/* sync.h - osb sync: a local directory and one in a sandbox, kept alike.
 *
 * Each path below the two roots is an entry. It has what was seen last on either side, and what was
 * there when both were alike: a side whose state differs from that has changed. cmd_sync.c decides,
 * sync_scan.c looks, sync_apply.c copies and deletes. One thread; calls block, so the watch of the
 * sandbox runs as a task beside them. */
#pragma once

#include <sys/stat.h>

#include "base/map.h"
#include "osb/cli.h"

enum {
    SYNC_ENTRIES_MAX = 200000,
    SYNC_PATH_MAX = 4096,
    SYNC_DEPTH_MAX = 128, /* levels of directories */
};

/* Names of files under way; never seen by the other side. */
#define SYNC_TEMPORARY ".osb-sync-"

enum sync_type { SYNC_NONE, SYNC_FILE, SYNC_DIRECTORY, SYNC_LINK };

struct sync_state {
    uint8_t type; /* enum sync_type; SYNC_NONE = it is not there */
    uint32_t mode;
    int64_t size, mtime_us;
};

enum sync_action {
    SYNC_NOTHING,
    SYNC_ADOPT, /* both sides are alike */
    SYNC_PUSH,
    SYNC_PULL,
    SYNC_DELETE_THERE,
    SYNC_DELETE_HERE,
    SYNC_CONFLICT, /* keeps the sandbox's file under another name, then pushes */
};

struct sync_entry {
    struct sync_state local, remote;           /* as seen last */
    struct sync_state base_local, base_remote; /* as both were alike */
    uint8_t action;                            /* enum sync_action */
    bool foreign;    /* a directory of the sandbox with something excluded in it */
    bool kept_there; /* a directory in which something stays, in this round */
    char path[];     /* below the root */
};

struct sync {
    struct cli *cli;
    const char *local, *remote; /* the roots; `remote` without a slash at its end */
    int root;                   /* descriptor of the local one */
    int inotify, wake, epoll;   /* `epoll` is readable when one of the others is */
    const char *const *excludes;
    size_t exclude_count;
    struct map map;           /* path -> struct sync_entry */
    struct sync_entry **list; /* the same, by path; made by sync_sort */
    size_t count;
    bool dirty_local, dirty_remote; /* changed since it was scanned */
    bool mirrors;                   /* --delete: at first, what is only in the sandbox goes */
    bool watching;                  /* the sandbox's watch stands */
    int watch_error;                /* -errno once it ended */
    uint64_t moved;                 /* entries copied or deleted */
};

/* Both fill one side of all entries anew. 0 or an exit status. */
int sync_scan_local(struct sync *s);
int sync_scan_remote(struct sync *s);
int sync_sort(struct sync *s);
bool sync_is_excluded(const struct sync *s, const char *path);
bool sync_same(const struct sync_state *a, const struct sync_state *b);
struct sync_state sync_state_of(const struct stat *st);
/* The absolute path in the sandbox, in the arena of the caller. */
const char *sync_remote_path(const struct sync *s, struct arena *a, const char *path);

/* Reports the last error of the client, unless Ctrl-C caused it: EXIT_FAILED. */
int sync_failed(struct sync *s);

/* Carries out the actions of all entries. 0 or an exit status. */
int sync_apply(struct sync *s);
/* 1 when both files have the same bytes, 0 when not, negative when that cannot be told. */
int sync_compare(struct sync *s, const struct sync_entry *entry);
