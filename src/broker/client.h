/* client.h - client library of the broker. Needs no privilege; blocks, so it is for workers.
 *
 * A lost broker is -EPIPE or -ECONNRESET; sandboxes live on, and another broker (or the same, once
 * restarted) knows them. A broker that does not answer is -ETIMEDOUT: after 10 s for queries, 30 s
 * for the first request of a connection, a minute for a pause and for removing or copying trees,
 * two for a new sandbox. The request may still take effect after that. */
#pragma once

#include "broker/wire.h"

struct broker_client {
    int sock; /* -EBADF when closed */
};

/* A sandbox that the broker has opened for the caller. */
struct broker_handle {
    struct broker_sandbox sandbox;
    int files[BROKER_FILE_COUNT];
};
void broker_handle_done(struct broker_handle *h); /* closes the files; the sandbox lives on */

/* Connects and sends BROKER_CONFIG. */
int broker_connect(struct broker_client *c, const char *path, const struct broker_config *config,
                   struct err *e);
/* Begins a connection for another process, which needs no right to connect: connects and sends
 * BROKER_CONFIG, whose role is settled by that, and does not wait for the answer. Returns the
 * socket. Blocks for at most a second. */
int broker_connect_for(const char *path, const struct broker_config *config, struct err *e);
/* Takes over such a socket, in that process, and waits for the answer to its configuration. */
int broker_adopt(struct broker_client *c, int sock, struct err *e);
void broker_close(struct broker_client *c);

/* layers: plan->layer_count directories; binds: plan->bind_count volumes, and the directory of a
 * lasting layer if plan->lasting, and that of saved memory if plan->memory; all may be O_PATH.
 * listener: the socket for execd. The caller keeps all of them. */
int broker_spawn(struct broker_client *c, const struct plan *plan, const int *layers,
                 const int *binds, int listener, struct broker_handle *ret, struct err *e);
int broker_open(struct broker_client *c, const char *id, struct broker_handle *ret, struct err *e);
/* Puts a policy in force for a sandbox, in place of the one it had, in one step. *ret, which may be
 * NULL, has its addresses. */
int broker_policy(struct broker_client *c, const char *id, const struct netns_policy *policy,
                  struct broker_sandbox *ret, struct err *e);
/* Adds addresses to the policy in force; each is forgotten after its time. */
int broker_learn(struct broker_client *c, const char *id, const struct netns_entry *entries,
                 size_t count, struct err *e);
/* What it has sent and received; -ENOENT when it has no policy, or is gone. */
int broker_traffic(struct broker_client *c, const char *id, struct netns_traffic *ret,
                   struct err *e);
/* What policies of all sandboxes dropped since the last call. Returns how many. */
int broker_denied(struct broker_client *c, struct netns_denied ret[NETNS_DENIED_MAX],
                  struct err *e);
int broker_signal(struct broker_client *c, const char *id, int signal, struct err *e);
int broker_pause(struct broker_client *c, const char *id, struct err *e);
int broker_resume(struct broker_client *c, const char *id, struct err *e);
int broker_stat(struct broker_client *c, const char *id, struct broker_sandbox *ret_sandbox,
                struct cgroup_stat *ret_stat, struct err *e);
int broker_remove(struct broker_client *c, const char *id, struct err *e);
/* The same, but need not wait until the processes that it killed have ended: none of them runs code
 * of its own any more. Waits all the same where their end could be seen, see broker.md. */
int broker_remove_soon(struct broker_client *c, const char *id, struct err *e);
/* Starts to copy the files that the sandbox wrote into an empty directory, as a layer with
 * PLAN_LAYER_SHIFTED, while the sandbox is frozen; and its memory into another, unless that is
 * negative: -ENOTSUP when its runtime cannot. Returns a socket for broker_copied_result;
 * closing it stops the work. -EBUSY in the result: another snapshot of it is being made. */
int broker_snapshot(struct broker_client *c, const char *id, int dir, int memory, struct err *e);
/* Starts to merge shifted layers, topmost first, into an empty directory: one layer with the same
 * effect. `link` makes hard links to their files where possible: then they must never be written
 * again. Returns a socket as above. */
int broker_merge(struct broker_client *c, const int *layers, size_t count, bool link, int dir,
                 struct err *e);
/* Starts a program that serves a volume of object storage. Returns a socket for
 * broker_objects_result, and then for broker_spawn, in place of the volume; closing it ends the
 * program, unless a sandbox has it. */
int broker_objects(struct broker_client *c, const struct objects_spec *spec, struct err *e);
/* Waits until the program has seen the bucket. -EIO with the program's words when it could not. */
int broker_objects_result(int sock, struct err *e);
/* Starts to count what is below a directory: entries, bytes on disk. Returns a socket as above.
 * -E2BIG in the result: there is more than can be counted within BROKER_MEASURE_MS_MAX. */
int broker_measure(struct broker_client *c, int dir, struct err *e);
/* Waits for the end of a snapshot, merge or measure. After any failure of the first two the
 * directory is incomplete: erase it. -EPIPE: the process that did it was killed. The caller closes
 * the socket. */
int broker_copied_result(int sock, uint32_t timeout_ms, struct broker_copied *ret, struct err *e);
/* Removes the directory dir/name, a snapshot or a volume, with all files of any owner. Its name is
 * free at once; the broker erases the files in the background. -ENOENT when there is none. */
int broker_erase(struct broker_client *c, int dir, const char *name, struct err *e);
/* Opens dir/path, a relative path, with O_PATH and the broker's rights. `make` creates missing
 * directories, owned by root, mode 0755. Follows no symbolic link: -ELOOP. The caller owns the
 * descriptor. */
int broker_reach(struct broker_client *c, int dir, const char *path, bool make, struct err *e);
/* Makes the directory dir/name, a volume that holds at most so many bytes: a file system of its
 * own. broker_reach() of it or below it returns a mount, for one plan. -EEXIST when it exists. */
int broker_make_volume(struct broker_client *c, int dir, const char *name, uint64_t bytes,
                       struct err *e);
/* Starts unpacking a layer, an archive open for reading, into an empty directory: its files get the
 * owners of sandbox/layer_ids.h. Returns a socket for broker_unpack_result; the caller closes it,
 * and so cancels work that goes on. After a failure the directory has files that only broker_erase
 * removes. */
int broker_unpack(struct broker_client *c, const struct unpack_limits *limits, int blob, int dir,
                  struct err *e);
/* Waits for the report; of a failed one the error names the entry and the reason. Needs no
 * connection. */
int broker_unpack_result(int sock, uint32_t timeout_ms, struct unpack_report *ret, struct err *e);
int broker_fill(struct broker_client *c, const struct broker_config *config, struct err *e);
/* Returns the number of removed leftovers, or -errno. */
int broker_sweep(struct broker_client *c, bool dead_too, struct err *e);
int broker_info(struct broker_client *c, struct broker_info *ret, struct err *e);
/* Calls visit for each sandbox. */
int broker_list(struct broker_client *c,
                void (*visit)(void *user, const struct broker_sandbox *sandbox), void *user,
                struct err *e);

/* Sends SIGTERM, waits up to grace_ms for the sandbox to end, then sends BROKER_REMOVE. */
int broker_kill(struct broker_client *c, struct broker_handle *h, uint32_t grace_ms, struct err *e);
