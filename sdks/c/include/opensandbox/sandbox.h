/* sandbox.h - the lifecycle API: sandboxes, their endpoints, snapshots, diagnostics.
 *
 * Functions by client and id answer with what the server says; ret_answer may be NULL there. A
 * struct osb_sandbox is the way into one sandbox, for commands, files and so on. */
#pragma once

#include <opensandbox/answer.h>

#ifdef __cplusplus
extern "C" {
#endif

struct osb_sandbox;

enum { OSB_PORT_EXECD = 44772, OSB_PORT_EGRESS = 18080 };

/* "Waits until ready": the daemon inside answers a ping. Returns at once with -EREMOTEIO and the
 * server's reason when the sandbox turns out to be Failed or Terminated. */

struct osb_volume {
    const char *name, *mount_path, *sub_path;
    bool read_only;
    const char *host_path;                       /* either this */
    const char *claim_name;                      /* or this */
    bool create_if_missing, delete_with_sandbox; /* of a claim */
};

/* A secret that programs inside use and never hold: the variable `name` has a placeholder there,
 * and requests to the hosts, over HTTPS, carry the value in its place. */
struct osb_secret {
    const char *name, *value;
    const char *const *hosts; /* NULL-terminated */
};

struct osb_create {
    size_t size;
    const char *image; /* this, or a snapshot, or a pool by extensions poolRef */
    const char *image_user, *image_password;
    const char *snapshot_id;
    const char *os, *arch;
    int64_t timeout_s;             /* 0 = 600; -1 = it does not expire */
    const char *const *entrypoint; /* NULL-terminated; NULL = tail -f /dev/null */
    const struct osb_pair *env, *metadata;
    size_t env_count, metadata_count;
    const struct osb_pair *resources; /* NULL = cpu 1, memory 2Gi */
    size_t resource_count;
    const struct osb_pair *extensions;
    size_t extension_count;
    const struct osb_volume *volumes;
    size_t volume_count;
    const char *network_policy; /* JSON: {"defaultAction":"deny","egress":[...]} */
    bool credential_proxy, secure_access;
    bool no_wait;                     /* return without waiting until it is ready */
    uint32_t ready_timeout_ms;        /* 30 s */
    uint32_t ready_poll_ms;           /* 200 ms */
    const char *pull_policy;          /* "IfNotPresent", "Always", "Never"; NULL = the server's */
    bool persistent;                  /* its files stay when it is stopped: osb_sandbox_stop */
    bool stop_on_expiry;              /* a persistent one is stopped in place of deleted */
    const struct osb_secret *secrets; /* an extension; turns the credential proxy on */
    size_t secret_count;
    /* The body as JSON, in place of all of the above but no_wait and the times of waiting. */
    const char *request;
    /* An extension: a create that is repeated with the same key and options, by whatever program,
     * returns the sandbox of the first, for a day. Without it a create whose answer was lost may
     * have made a sandbox. One that does not become ready uses its key up. */
    const char *idempotency_key;
};
#define OSB_CREATE .size = sizeof(struct osb_create)

/* Creates a sandbox and waits until it is ready. On failure it is deleted again. */
int osb_sandbox_create(struct osb_client *client, const struct osb_create *create,
                       struct osb_sandbox **ret_sandbox);
/* One that exists, without waiting. */
int osb_sandbox_connect(struct osb_client *client, const char *id,
                        struct osb_sandbox **ret_sandbox);
/* timeout_ms 0 = 30 s, poll_ms 0 = 200 ms. */
int osb_sandbox_wait_ready(struct osb_sandbox *sandbox, uint32_t timeout_ms, uint32_t poll_ms);
/* 1 when it answers a ping, 0 when it does not. Never an error. */
int osb_sandbox_is_healthy(struct osb_sandbox *sandbox);
/* Frees the handle; the sandbox goes on. */
void osb_sandbox_free(struct osb_sandbox *sandbox);
const char *osb_sandbox_id(const struct osb_sandbox *sandbox);
struct osb_client *osb_sandbox_client(const struct osb_sandbox *sandbox);

/* --- by client and id --- */

int osb_sandbox_get(struct osb_client *client, const char *id, struct osb_answer **ret_answer);
int osb_sandbox_delete(struct osb_client *client, const char *id);
int osb_sandbox_pause(struct osb_client *client, const char *id);
int osb_sandbox_resume(struct osb_client *client, const char *id);
/* It expires so many seconds from now. */
int osb_sandbox_renew(struct osb_client *client, const char *id, int64_t seconds,
                      struct osb_answer **ret_answer);
/* A pair without a value removes that label. */
int osb_sandbox_patch_metadata(struct osb_client *client, const char *id,
                               const struct osb_pair *pairs, size_t pair_count,
                               struct osb_answer **ret_answer);

/* What is in an answer of get, or in item `index` of a page. "" and 0 when it is not there. */
struct osb_info;
size_t osb_info_count(const struct osb_answer *answer);
const struct osb_info *osb_info_at(const struct osb_answer *answer, size_t index); /* or NULL */
const char *osb_info_id(const struct osb_info *info);
const char *osb_info_state(const struct osb_info *info); /* "Running" */
const char *osb_info_reason(const struct osb_info *info);
const char *osb_info_message(const struct osb_info *info);
const char *osb_info_image(const struct osb_info *info);
const char *osb_info_metadata(const struct osb_info *info, const char *key); /* or NULL */
int64_t osb_info_created_us(const struct osb_info *info); /* microseconds since 1970 */
int64_t osb_info_expires_us(const struct osb_info *info); /* 0 = never */
const char *osb_info_json(const struct osb_info *info);

struct osb_filter {
    size_t size;
    const char *const *states;       /* NULL-terminated: any of them */
    const struct osb_pair *metadata; /* all of them */
    size_t metadata_count;
    const char *sandbox_id; /* of snapshots */
    uint32_t page, page_size;
};
#define OSB_FILTER .size = sizeof(struct osb_filter)

int osb_sandbox_list(struct osb_client *client, const struct osb_filter *filter,
                     struct osb_answer **ret_answer);
/* Page after page: 1 and a sandbox, valid until the next call; 0 at the end. */
struct osb_iterator;
int osb_iterator_new(struct osb_client *client, const struct osb_filter *filter,
                     struct osb_iterator **ret_iterator);
int osb_iterator_next(struct osb_iterator *iterator, const struct osb_info **ret_info);
void osb_iterator_free(struct osb_iterator *iterator);

/* --- endpoints --- */

/* The answer has "endpoint", without a scheme, and "headers" that requests to it must carry. */
int osb_endpoint_get(struct osb_client *client, const char *id, uint16_t port,
                     struct osb_answer **ret_answer);
/* One that carries its permission in its address, until expires_s (seconds since 1970). */
int osb_endpoint_get_signed(struct osb_client *client, const char *id, uint16_t port,
                            int64_t expires_s, struct osb_answer **ret_answer);

/* --- snapshots --- */

int osb_snapshot_create(struct osb_client *client, const char *sandbox_id, const char *name,
                        struct osb_answer **ret_answer);
struct osb_snapshot {
    size_t size;
    const char *name;
    /* With the memory of its processes: what is made of it goes on where this one was. An
     * extension, for sandboxes on gVisor. */
    bool memory;
};
#define OSB_SNAPSHOT .size = sizeof(struct osb_snapshot)
int osb_snapshot_create_with(struct osb_client *client, const char *sandbox_id,
                             const struct osb_snapshot *snapshot, struct osb_answer **ret_answer);
int osb_snapshot_get(struct osb_client *client, const char *id, struct osb_answer **ret_answer);
int osb_snapshot_list(struct osb_client *client, const struct osb_filter *filter,
                      struct osb_answer **ret_answer);
int osb_snapshot_delete(struct osb_client *client, const char *id);

/* --- forks, and persistent sandboxes: extensions of the API --- */

struct osb_fork {
    size_t size;
    uint32_t count;    /* 1 */
    int64_t timeout_s; /* 0 = as of the source, from now */
    /* In place of the source's, or added; one without a value is removed. */
    const struct osb_pair *env;
    size_t env_count;
    const struct osb_pair *metadata; /* in place of all of the source's; NULL = the same */
    size_t metadata_count;
    const char *const *entrypoint; /* NULL-terminated; NULL = as of the source */
    bool memory;                   /* with its processes, as they are: on gVisor only */
};
#define OSB_FORK .size = sizeof(struct osb_fork)

/* New sandboxes with the files of a running one at this moment: all are made, or none. `fork` may
 * be NULL. The answer has them as osb_info_at does; osb_sandbox_connect leads into each. */
int osb_sandbox_fork(struct osb_client *client, const char *id, const struct osb_fork *fork,
                     struct osb_answer **ret_answer);
/* Ends the processes and starts again with the files of the snapshot; the id stays. */
int osb_sandbox_rollback(struct osb_client *client, const char *id, const char *snapshot_id);
/* Of a persistent one: ends the processes and keeps the files; and starts it again. */
int osb_sandbox_stop(struct osb_client *client, const char *id);
int osb_sandbox_start(struct osb_client *client, const char *id);

/* --- diagnostics --- */

/* kind: "logs", "events", "inspect" or "summary"; scope: "container" and so on, NULL = plain text.
 */
int osb_diagnostics_get(struct osb_client *client, const char *id, const char *kind,
                        const char *scope, struct osb_answer **ret_answer);

/* --- figures --- */

struct osb_metrics {
    double cpu_count, cpu_used_percent, memory_total_mib, memory_used_mib;
    int64_t timestamp_ms;
};
int osb_metrics_get(struct osb_sandbox *sandbox, struct osb_metrics *ret_metrics);
/* One about every second until `on_metrics` returns something else than 0; that ends it with 0. */
typedef int osb_metrics_fn(void *user, const struct osb_metrics *metrics);
int osb_metrics_watch(struct osb_sandbox *sandbox, osb_metrics_fn *on_metrics, void *user);

#ifdef __cplusplus
}
#endif
