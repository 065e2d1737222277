#include "server/core/forks.h"

#include <errno.h>

#include "api/body.h"
#include "api/copy.h"
#include "api/metadata.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/core/sandboxes_internal.h"
#include "server/core/snapshots.h"
#include "server/core/spec_request.h"

struct fork {
    struct sandboxes *table;
    struct principal by;
    struct arena arena;
    struct api_create spec; /* what the sandboxes look like: image or snapshot as of the source */
    fork_done_fn *done;
    void *user;
    char snapshot[ID_UUID_MAX], source[ID_UUID_MAX];
    size_t count, left; /* how many are asked for, and have not ended */
    size_t made_count;
    char made[API_FORK_MAX][ID_UUID_MAX];
    struct api_fail fail; /* the first one; status 0 = none */
};

static void fork_end(struct fork *f)
{
    struct sandbox *made[API_FORK_MAX];
    struct snapshot *s = snapshots_find(f->table->conf.snapshots, str_of(f->snapshot));
    size_t n = 0;

    for (size_t i = 0; i < f->made_count; i++) {
        struct sandbox *sb = sandboxes_find(f->table, str_of(f->made[i]));

        if (sb && f->fail.status)
            sandbox_delete(sb, &principal_server, NULL, NULL);
        else if (sb)
            made[n++] = sb;
    }
    log_event(f->fail.status ? LOG_WARN : LOG_INFO, "sandbox forked", LOG_STR("sandbox", f->source),
              LOG_STR("by", f->by.key_id), LOG_U64("count", n), LOG_STR("error", f->fail.message));
    if (f->fail.status)
        n = 0;
    f->done(f->user, made, n, f->fail.status ? &f->fail : NULL);
    if (s)
        snapshot_delete(s, &principal_server, NULL, NULL);
    arena_done(&f->arena);
    free(f);
}

static void fork_failed(struct fork *f, const struct api_fail *fail)
{
    if (!f->fail.status)
        f->fail = *fail;
}

static void on_created(void *user, struct sandbox *sb, const struct api_fail *fail)
{
    struct fork *f = user;

    if (fail)
        fork_failed(f, fail);
    else if (sb && sb->state == SANDBOX_FAILED)
        (void)api_fail_set(&f->fail, 500, "DOCKER::SANDBOX_START_FAILED", "%s", sb->message);
    if (sb)
        memcpy(f->made[f->made_count++], sb->id, sizeof(sb->id));
    if (--f->left == 0)
        fork_end(f);
}

static void on_made(void *user, struct snapshot *s UNUSED, const struct api_fail *fail)
{
    struct fork *f = user;
    struct api_create spec = f->spec;
    struct api_fail refusal = {0};
    struct sandbox *sb;

    if (fail) {
        fork_failed(f, fail);
        fork_end(f);
        return;
    }
    spec.image = STR_NONE;
    if (spec.secrets.count)
        spec.secrets_from = str_of(f->source);
    spec.snapshot_id = str_of(f->snapshot);
    f->left = f->count + 1; /* one for this function */
    for (size_t i = 0; i < f->count; i++)
        if (sandboxes_create_like(f->table, &f->by, &spec, &f->spec, on_created, f, &sb, &refusal) <
            0) {
            fork_failed(f, &refusal);
            f->left--;
        }
    if (--f->left == 0)
        fork_end(f);
}

static void on_accepted(void *user, struct snapshot *s, const struct api_fail *fail)
{
    struct fork *f = user;

    if (!fail) {
        memcpy(f->snapshot, s->id, sizeof(f->snapshot));
        return;
    }
    fork_failed(f, fail);
    fork_end(f);
}

/* The labels that the source has now. */
static int labels_of(const struct sandbox *sb, struct fork *f)
{
    struct json *root = NULL;

    f->spec.metadata_count = 0;
    if (!sb->metadata[0])
        return 0;
    if (json_parse(&f->arena, str_of(sb->metadata), NULL, &root, NULL) < 0)
        return api_fail_set(&f->fail, 500, "SANDBOX::UNKNOWN_ERROR", "its metadata is damaged");
    return api_pairs_parse(&f->arena, root, "metadata", API_METADATA_MAX, &f->spec.metadata,
                           &f->spec.metadata_count, &f->fail);
}

static int plan_fork(const struct sandbox *sb, const struct api_fork *request,
                     int64_t timeout_s_max, struct fork *f)
{
    int r =
        spec_request_read(&f->arena, sb->request ? str_of(sb->request) : STR_NONE, str_of(sb->spec),
                          request->env, request->env_count, &f->spec, &f->fail);

    if (r < 0)
        return r;
    if (f->spec.secrets.count && !runtime_can(f->table->conf.runtime, RUNTIME_CAN_LEND))
        return api_fail_invalid(&f->fail, "secretEnv: on this runtime a fork cannot take over the "
                                          "secrets of its source, which nothing tells");
    if (request->has_metadata) {
        f->spec.metadata = request->metadata;
        f->spec.metadata_count = request->metadata_count;
        r = api_labels_check(request->metadata, request->metadata_count, &f->fail);
    } else {
        r = labels_of(sb, f);
    }
    if (request->entrypoint_count) {
        f->spec.entrypoint = request->entrypoint;
        f->spec.entrypoint_count = request->entrypoint_count;
    }
    if (request->timeout_s)
        f->spec.timeout_s = request->timeout_s;
    if (r >= 0 && timeout_s_max && f->spec.timeout_s > timeout_s_max)
        return api_fail_invalid(&f->fail,
                                "timeout: this server allows at most %lld seconds, got %lld",
                                (long long)timeout_s_max, (long long)f->spec.timeout_s);
    return r;
}

void sandbox_fork(struct sandbox *sb, const struct principal *by, const struct api_fork *request,
                  int64_t timeout_s_max, fork_done_fn *done, void *user)
{
    struct fork *f = mem_new(struct fork);
    struct api_create spec;
    int r = 0;

    f->table = sb->table;
    f->by = *by;
    memcpy(f->by.tenant, sb->owner.tenant, sizeof(f->by.tenant)); /* also for an admin of all */
    f->done = done;
    f->user = user;
    f->count = request->count;
    memcpy(f->source, sb->id, sizeof(f->source));
    arena_init(&f->arena, OP_ARENA_MAX);
    if (sb->state != SANDBOX_RUNNING)
        r = api_fail_set(&f->fail, 409, "DOCKER::SANDBOX_NOT_RUNNING",
                         "sandbox %s is %s; a fork needs one that is Running", sb->id,
                         sandbox_state_name(sb->state));
    if (r == 0)
        r = plan_fork(sb, request, timeout_s_max, f);
    if (r >= 0) { /* the request does not outlive this call */
        spec = f->spec;
        if (api_create_copy(&f->arena, &spec, &f->spec) < 0)
            r = api_fail_memory(&f->fail);
    }
    if (r < 0) {
        fork_end(f);
        return;
    }
    snapshots_create(sb->table->conf.snapshots, &f->by,
                     &(struct snapshot_request){
                         .sandbox_id = str_of(sb->id), .hidden = true, .memory = request->memory},
                     on_accepted, on_made, f);
}
