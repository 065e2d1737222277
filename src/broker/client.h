/* client.h - the caller's side of a broker. Needs no privilege; blocks, so it is for workers.
 *
 * A lost broker shows as -EPIPE or -ECONNRESET; sandboxes live on, and another broker (or the same,
 * once restarted) knows them. One that is silent is -ETIMEDOUT, after 10 s for questions, 30 s for
 * the first of a connection, a minute for a pause and for what removes or copies trees, and two for
 * a new sandbox: what was asked for may still come. */
#pragma once

#include "broker/wire.h"

struct broker_client {
    int sock; /* -EBADF when closed */
};

/* A sandbox in the caller's hands. */
struct broker_handle {
    struct broker_sandbox sandbox;
    int files[BROKER_FILE_COUNT];
};
void broker_handle_done(struct broker_handle *h); /* closes; the sandbox lives on */

/* Connects and configures. */
int broker_connect(struct broker_client *c, const char *path, const struct broker_config *config,
                   struct err *e);
void broker_close(struct broker_client *c);

/* layers: plan->layer_count directories; binds: plan->bind_count volumes; both may be O_PATH.
 * listener: where execd is to answer. All stay the caller's. */
int broker_spawn(struct broker_client *c, const struct plan *plan, const int *layers,
                 const int *binds, int listener, struct broker_handle *ret, struct err *e);
int broker_open(struct broker_client *c, const char *id, struct broker_handle *ret, struct err *e);
int broker_signal(struct broker_client *c, const char *id, int signal, struct err *e);
int broker_pause(struct broker_client *c, const char *id, struct err *e);
int broker_resume(struct broker_client *c, const char *id, struct err *e);
int broker_stat(struct broker_client *c, const char *id, struct broker_sandbox *ret_sandbox,
                struct cgroup_stat *ret_stat, struct err *e);
int broker_remove(struct broker_client *c, const char *id, struct err *e);
/* Copies what the sandbox wrote into an empty directory, ids as they are inside. Pause it before.
 * Callers other than root get no setuid and setgid bits. */
int broker_snapshot(struct broker_client *c, const char *id, int dir, struct err *e);
/* Removes the directory dir/name with all it holds, whoever that belongs to: a snapshot, or a
 * volume. Its name is free at once; the broker erases the files in the background. -ENOENT when
 * there is none. */
int broker_erase(struct broker_client *c, int dir, const char *name, struct err *e);
/* Opens dir/path, a relative path, by O_PATH and with the broker's rights; `make` makes directories
 * that are missing, root's and 0755. Follows no symbolic link: -ELOOP. The descriptor is the
 * caller's. */
int broker_reach(struct broker_client *c, int dir, const char *path, bool make, struct err *e);
int broker_fill(struct broker_client *c, const struct broker_config *config, struct err *e);
/* How many leftovers were removed, or -errno. */
int broker_sweep(struct broker_client *c, bool dead_too, struct err *e);
int broker_info(struct broker_client *c, struct broker_info *ret, struct err *e);
/* Calls visit for each sandbox there is. */
int broker_list(struct broker_client *c,
                void (*visit)(void *user, const struct broker_sandbox *sandbox), void *user,
                struct err *e);

/* SIGTERM, up to grace_ms for it to end by itself, then BROKER_REMOVE. */
int broker_kill(struct broker_client *c, struct broker_handle *h, uint32_t grace_ms, struct err *e);
