/* docker_internal.h - shared by the files of the Docker runtime. */
#pragma once

#include "base/id.h"
#include "base/json_write.h"
#include "base/map.h"
#include "net/pool.h"
#include "server/runtime/docker/boxes.h"
#include "server/runtime/docker/docker.h"
#include "server/runtime/docker/engine.h"
#include "server/runtime/docker/events.h"

/* Labels, as other builds of OpenSandbox have them; the last is ours. */
#define LABEL_PREFIX         "opensandbox.io/"
#define LABEL_ID             LABEL_PREFIX "id"
#define LABEL_EXPIRES_AT     LABEL_PREFIX "expires-at"
#define LABEL_MANUAL_CLEANUP LABEL_PREFIX "manual-cleanup"
#define LABEL_OS             LABEL_PREFIX "platform-os"
#define LABEL_ARCH           LABEL_PREFIX "platform-arch"
#define LABEL_SNAPSHOT       LABEL_PREFIX "snapshot-id"
#define LABEL_RENEW          LABEL_PREFIX "access-renew-extend-seconds"
#define LABEL_EXECD_PORT     LABEL_PREFIX "embedding-proxy-port"
#define LABEL_HTTP_PORT      LABEL_PREFIX "http-port"
#define LABEL_VOLUMES        LABEL_PREFIX "volume-managed-by"
#define LABEL_EGRESS_TOKEN   LABEL_PREFIX "egress-auth-token"
#define LABEL_SIDECAR_FOR    LABEL_PREFIX "egress-sidecar-for"
#define LABEL_OWNER          LABEL_PREFIX "owner"

#define DOCKER_SNAPSHOTS    "opensandbox-snapshots" /* repository of images: a tag per snapshot */
#define DOCKER_DIR          "/opt/opensandbox/bin"  /* where the volume with execd is mounted */
#define DOCKER_SHARED_DIR   "/opt/opensandbox"      /* of it, where a sidecar puts its authority */
#define DOCKER_TOKEN_ENV    "EXECD_ACCESS_TOKEN"
#define DOCKER_POOL_OWNER   "pool" /* runtime_create.owner of one that waits to be claimed */
#define DOCKER_TOKEN_PREFIX "opensandbox-" /* of tokens that the server makes */

enum {
    DOCKER_EXECD_PORT = 44772,
    DOCKER_HTTP_PORT = 8080,
    DOCKER_EGRESS_PORT = 18080,
    DOCKER_PLACEHOLDER_MAX = 64,
    DOCKER_NAME_MAX = 128,       /* of a container, an image of ours, a volume of ours */
    DOCKER_ARENA_MAX = 32 << 20, /* of one answer of the engine, parsed */
};

struct docker {
    struct runtime base;
    const struct config *config;
    const char *owner;
    struct loop *loop;
    struct pool *pool;  /* the server's */
    struct pool *pulls; /* threads for creates that have to pull an image first */
    struct engine *engine;
    struct docker_events *events;
    struct boxes boxes;
    void (*on_news)(void *user); /* of the server: a sandbox without a watch has changed */
    void *user;
    char arch[32]; /* of the engine, as images name it */
    int execd_fd;  /* the program */
    char execd_volume[DOCKER_NAME_MAX];
    char egress_image[DOCKER_NAME_MAX]; /* of our own making; "" = none yet. Under execd_lock */
    char oci_runtime[64];               /* of every sandbox; "" = the engine's default */
    bool hides_changes; /* that runtime keeps what sandboxes write where a commit does not see it */
    bool host_network;
    bool
        by_port; /* containers are reached by published ports: their addresses are not ours to use */
    bool one_shot;              /* the engine has stats without a delay */
    bool quotas;                /* its storage driver keeps limits of disk */
    char driver[64];            /* that driver */
    pthread_mutex_t work_lock;  /* protects task->of_runtime */
    pthread_mutex_t execd_lock; /* held while the volume of execd is filled again */
};

static inline struct docker *docker_of(struct runtime *r)
{
    return container_of(r, struct docker, base);
}

/* "sandbox-ID". */
void docker_name(struct str id, char out[DOCKER_NAME_MAX]);
/* "sandbox-egress-ID". */
void docker_sidecar_name(struct str id, char out[DOCKER_NAME_MAX]);
/* "opensandbox-runtime-ID". */
void docker_runtime_volume(struct str id, char out[DOCKER_NAME_MAX]);

/* --- docker.c: requests --- */

/* method target, with printf's format, without a body; its answer does not matter. */
int docker_ask(struct docker *d, enum http_method method, uint32_t timeout_ms, struct err *e,
               const char *fmt, ...) PRINTF_LIKE(5, 6);
/* GET target as JSON. */
int docker_get(struct docker *d, struct arena *a, struct json **ret, struct err *e, const char *fmt,
               ...) PRINTF_LIKE(5, 6);
/* Appends filters={...} for a query: each pair is a name and a value, up to a NULL. */
int docker_add_filters(struct buf *out, const char *const *pairs);

/* --- docker_inspect.c: what the engine says of a container --- */

struct docker_facts {
    struct runtime_status status;
    bool created; /* made and never started */
    bool owned;   /* by this installation */
    char container[80];
    char token[BOX_TOKEN_MAX];
    struct in_addr address; /* 0 = none */
    uint16_t execd_port;    /* on the engine's machine; 0 = not published */
    uint16_t http_port;
    uint16_t egress_port;
    int pid;
    char egress_token
        [BOX_TOKEN_MAX]; /* of its sidecar; that of the sandbox may have changed since */
    bool has_sidecar;    /* its address and ports are those of the sidecar */
};
/* -ENOENT when there is none, or it is of another installation. One that runs without the sidecar
 * that it was made with has no network any more: it is RUNTIME_FAILED. */
int docker_inspect(struct docker *d, struct str id, struct docker_facts *ret, struct err *e);
/* Reads the answer of GET /containers/ID/json. -EBADMSG when it makes no sense. */
int docker_facts_read(const struct json *tree, const char *owner, const char *network,
                      struct docker_facts *ret, struct err *e);
/* The same; and one that has not ended is entered in the table of boxes, with *ret_watch as
 * runtime_ops.adopt has it. */
int docker_inspect_and_enter(struct docker *d, struct str id, struct docker_facts *ret,
                             int *ret_watch, struct err *e);

/* Where the server reaches a port of the container: `inside` is the container's, `published` the
 * engine's machine's, 0 = not published. -ENETUNREACH. */
int docker_address_of(const struct docker *d, const struct docker_facts *facts, uint16_t inside,
                      uint16_t published, struct sock_addr *ret, struct err *e);

/* --- docker_create.c: as in runtime.h --- */

int docker_check_abilities(struct runtime *r, const struct api_create *spec, struct api_fail *f);
int docker_check(struct runtime *r, struct runtime_create *c, struct api_fail *f);
int docker_create(struct runtime *r, struct runtime_create *c, struct err *e);
void docker_cancel(struct runtime *r, struct runtime_task *task);
int docker_start_error(struct runtime *r, struct str id, const struct runtime_birth *birth,
                       struct err *e);

/* --- docker_spec.c: the body of POST /containers/create --- */

struct docker_plan {
    char token[BOX_TOKEN_MAX]; /* of execd; "" = the request has its own */
    uint16_t execd_port,
        http_port;        /* to publish, or, on the host's network, to listen on; 0 = none */
    uint16_t egress_port; /* the same, of the sidecar; 0 = none */
    bool sidecar;         /* the sandbox joins the network of one, which publishes the ports */
    bool kept;            /* it is there already, with the ports above and this token */
    char egress_token[BOX_TOKEN_MAX];
    /* What the sandbox has in place of the values of secretEnv, by their order; "" = none. */
    char placeholders[API_SECRETS_MAX][DOCKER_PLACEHOLDER_MAX];
};
int docker_spec_write(const struct docker *d, const struct runtime_create *c,
                      const struct docker_plan *plan, struct buf *out, struct err *e);
/* Members of a body that a sandbox and its sidecar have alike: ExposedPorts;
 * HostConfig.PortBindings, if ports are published; and an array of texts, up to a NULL. */
void docker_spec_write_exposed(struct json_writer *w, const struct docker_plan *plan);
void docker_spec_write_ports(struct json_writer *w, const struct docker *d,
                             const struct docker_plan *plan);
void docker_spec_write_texts(struct json_writer *w, struct str key, const char *const *texts);

/* --- docker_sidecar.c: the egress sidecar of a sandbox with a network policy --- */

/* Whether the sandbox gets one: it has a policy, or the operator has lists for all sandboxes. */
bool docker_sidecar_wanted(const struct docker *d, const struct api_create *spec);
/* Whether the configuration asks of sidecars what they cannot do. */
int docker_sidecar_check_config(const struct docker *d, struct err *e);
/* Whether this server can have one for the request. */
int docker_sidecar_check(const struct docker *d, const struct api_create *spec, struct api_fail *f);
/* Makes and starts it, and waits until its rules are in force. -ENOENT with *ret_no_image when its
 * image is not here. */
int docker_sidecar_start(struct docker *d, struct runtime_create *c, struct docker_plan *p,
                         bool *ret_no_image, struct err *e);
/* secretEnv: gives the values to the vault of a sidecar that is ready, and puts placeholders into
 * the plan; of a rollback, those that it has. */
int docker_secrets_hand_over(struct docker *d, struct runtime_create *c, struct docker_plan *p,
                             struct err *e);
/* Where the sidecar's control is. */
int docker_sidecar_address(struct docker *d, struct str id, struct sock_addr *ret, struct err *e);
/* Puts what the sidecar has into the facts of its sandbox: address, port, and that it is gone. */
int docker_sidecar_join(struct docker *d, struct str id, struct docker_facts *facts, struct err *e);
/* Removes it if it is of this installation, and the volume that it shares with the sandbox. 1 when
 * it was there. */
int docker_sidecar_remove(struct docker *d, struct str id, struct err *e);

/* Puts the ports and the token of the one that is there into the plan. -ENOENT when none is. */
int docker_sidecar_keep(struct docker *d, struct str id, struct docker_plan *plan, struct err *e);
/* Starts the one that is there, unless it runs, and waits for its rules. */
int docker_sidecar_start_again(struct docker *d, struct runtime_create *c, struct str token,
                               struct err *e);

/* --- docker_again.c: see runtime_again --- */

int docker_halt(struct runtime *r, struct str id, struct err *e);
/* Whether there is a container to start. */
int docker_again_check(struct docker *d, const struct runtime_create *c, struct api_fail *f);
/* Starts the sandbox's container, after its sidecar. */
int docker_start_again(struct docker *d, struct runtime_create *c, struct err *e);
/* Removes the container that a create from the snapshot replaces. */
int docker_clear_for_rollback(struct docker *d, const struct runtime_create *c, struct err *e);
/* Enters a container that rests: its ports are not free, and its removal by others is news. */
void docker_rest(struct docker *d, struct str id, const struct docker_facts *facts);

/* --- docker_images.c --- */

/* Pulls the request's image, or another one. Says its progress to the task. BLOCKS, up to
 * images.pull_seconds. */
int docker_pull(struct docker *d, struct runtime_create *c, struct str image,
                atomic_bool *cancelled, struct err *e);
/* The image to create from: of the request, or of its snapshot; the tag of "python" is latest. */
int docker_image_name(const struct api_create *spec, struct buf *out);

/* --- docker_execd.c --- */

/* Has the engine keep execd in a volume that sandboxes mount, unless it has it. BLOCKS. Callers
 * hold execd_lock, but at the start. */
int docker_execd_provide(struct docker *d, struct err *e);

/* Whether the engine has an image by that name. */
bool docker_has_image(struct docker *d, const char *repository, const char *tag);
/* Names what an engine has imported that takes no notice of the tag, by what it answered. */
int docker_import_tag(struct docker *d, struct str answer, const char *repository, const char *tag,
                      struct err *e);

/* --- docker_egress.c --- */

/* Whether there is a program of which an image of the sidecar can be made. */
bool docker_egress_can(const struct docker *d);
/* Has the engine keep that image, unless it was given it before; `again`: also then. BLOCKS. */
int docker_egress_provide(struct docker *d, bool again, char ret_image[DOCKER_NAME_MAX],
                          struct err *e);

/* --- docker_volumes.c --- */

int docker_volumes_check(struct docker *d, const struct api_create *spec, struct api_fail *f);
/* Makes the volumes that the request wants made. */
int docker_volumes_make(struct docker *d, const struct runtime_create *c, struct err *e);
/* Writes them as elements of HostConfig.Binds. */
int docker_volumes_write(const struct docker *d, const struct api_create *spec,
                         struct json_writer *w, struct err *e);
/* Appends the names of volumes that go with the sandbox, as a JSON array; nothing if none do. */
int docker_volumes_label(const struct api_create *spec, struct str id, struct buf *out);
/* Makes a volume of this installation, which goes with the sandbox made_for, unless that is "". */
int docker_volume_make(struct docker *d, struct str name, struct str made_for, struct err *e);
/* Removes those that the label of a container names, if they were made for it. */
void docker_volumes_drop(struct docker *d, struct str sandbox_id, struct str label);
/* Removes all that were made for a sandbox, of which no container tells any more. */
void docker_volumes_drop_all(struct docker *d, struct str sandbox_id);

int docker_volume_list(struct runtime *r, uint64_t skip, uint64_t count,
                       runtime_volume_visit_fn *visit, void *user, uint64_t *ret_total,
                       struct err *e);
int docker_volume_get(struct runtime *r, struct str name, runtime_volume_visit_fn *visit,
                      void *user, struct err *e);
int docker_volume_create(struct runtime *r, struct str name, uint64_t size_bytes, struct err *e);
int docker_volume_remove(struct runtime *r, struct str name, struct err *e);

/* --- docker_logs.c --- */

int docker_logs(struct runtime *r, struct str id, const struct runtime_log_query *query,
                struct buf *out, bool *ret_cut, struct err *e);
/* Appends the last lines that a container printed, without their times. */
int docker_logs_tail(struct docker *d, const char *name, unsigned lines, struct buf *out,
                     struct err *e);
/* Takes the frames of a container's output apart: appends their content to `out`. -EBADMSG. */
int docker_logs_unframe(struct str frames, struct buf *out);
int docker_report(struct runtime *r, struct str id, enum api_diag_kind kind, struct buf *out,
                  struct err *e);
int docker_usage(struct runtime *r, struct str id, struct runtime_usage *ret, struct err *e);

/* --- docker_snapshots.c: as in runtime.h --- */

int docker_snapshot(struct runtime *r, struct runtime_snapshot *s, struct err *e);
int docker_snapshot_remove(struct runtime *r, struct str snapshot_id, struct err *e);
/* Removes images of snapshots that were deleted while sandboxes used them. */
void docker_snapshots_prune(struct docker *d);
int docker_snapshot_each(struct runtime *r, runtime_snapshot_visit_fn *visit, void *user,
                         struct err *e);
