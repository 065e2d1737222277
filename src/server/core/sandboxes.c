#include "server/core/sandboxes.h"

#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/core/events.h"
#include "server/core/sandboxes_internal.h"
#include "server/tenants/tenants.h"

enum {
    DUE_AHEAD_MS = 60 * 1000, /* longest timer, as the wall clock may be set */
    REMOVE_RETRY_MS = 3000,
    LOOK_MS_MIN = 500,
    LOOK_MS_MAX = 30 * 1000,
};

int sandboxes_new(const struct sandboxes_conf *conf, struct sandboxes **ret, struct err *e UNUSED)
{
    struct sandboxes *t = mem_new(struct sandboxes);

    t->conf = *conf;
    map_init(&t->by_id, conf->max, NULL);
    map_init(&t->doubts, SANDBOX_DOUBTS_MAX, NULL);
    list_init(&t->order);
    sandbox_index_init(t);
    *ret = t;
    return 0;
}

static void sandbox_free(struct sandbox *sb)
{
    struct loop *loop = sb->table->conf.loop;

    if (sb->active)
        op_abandon(sb->active);
    loop_timer_stop(loop, &sb->due);
    sandbox_watch(sb, -EBADF);
    list_remove(&sb->link);
    list_remove(&sb->pool_link);
    sandbox_index_remove(sb);
    free(sb->message);
    free(sb->image);
    free(sb->snapshot_id);
    free(sb->os);
    free(sb->arch);
    free(sb->entrypoint);
    free(sb->metadata);
    free(sb->spec);
    free(sb->secrets);
    if (sb->request)
        mem_wipe(sb->request, strlen(sb->request));
    free(sb->request);
    mem_wipe(sb->token, sizeof(sb->token));
    free(sb);
}

void sandboxes_stop(struct sandboxes *t)
{
    LIST_EACH(&t->order, at)
    sandbox_cancel_create(container_of(at, struct sandbox, link), "the server is stopping");
}

void sandboxes_free(struct sandboxes *t)
{
    if (!t)
        return;
    loop_timer_stop(t->conf.loop, &t->reconcile);
    LIST_EACH(&t->order, at)
    sandbox_free(container_of(at, struct sandbox, link));
    sandbox_index_done(t);
    map_done(&t->by_id);
    map_done(&t->doubts);
    free(t);
}

/* --- members --- */

struct sandbox *sandbox_new(struct sandboxes *t, struct str id)
{
    struct sandbox *sb = mem_new(struct sandbox);

    sb->table = t;
    sb->watch.fd = -EBADF;
    list_init(&sb->ops);
    list_init(&sb->link);
    list_init(&sb->pool_link);
    list_init(&sb->index_link);
    if (str_copy(sb->id, sizeof(sb->id), id) < 0 || map_add(&t->by_id, id, sb) < 0) {
        free(sb);
        return NULL;
    }
    list_push(&t->order, &sb->link);
    sb->number = ++t->number;
    sandbox_index_changed(sb);
    return sb;
}

void sandbox_release(struct sandbox *sb)
{
    if (sb->gone && !sb->active && list_empty(&sb->ops))
        sandbox_free(sb);
}

void sandbox_count(struct sandbox *sb)
{
    if (!sb->table->conf.tenants || sb->hidden || sb->is_counted)
        return;
    sb->is_counted = true;
    sb->counted = sb->facts.limits;
    tenants_count(sb->table->conf.tenants, sb->owner.tenant, &sb->counted, 1);
}

void sandbox_uncount(struct sandbox *sb)
{
    if (!sb->is_counted)
        return;
    sb->is_counted = false;
    tenants_count(sb->table->conf.tenants, sb->owner.tenant, &sb->counted, -1);
}

void sandbox_show(struct sandbox *sb)
{
    if (!sb->hidden)
        atomic_fetch_add(&sb->table->stored, 1); /* first, so that the count is never too low */
    atomic_store_explicit(&sb->stored, true, memory_order_release);
}

void sandbox_drop(struct sandbox *sb)
{
    if (sb->gone)
        return;
    sb->gone = true;
    sandbox_uncount(sb);
    if (atomic_load(&sb->stored))
        events_publish(sb->table->conf.events, sb, "sandbox.deleted");
    if (sb->pool || sb->errand)
        pool_on_drop(sb);
    if (atomic_load(&sb->stored) && !sb->hidden)
        atomic_fetch_sub(&sb->table->stored, 1);
    map_take(&sb->table->by_id, str_of(sb->id));
    list_remove(&sb->link); /* and hides it from listings */
    sandbox_index_remove(sb);
    loop_timer_stop(sb->table->conf.loop, &sb->due);
    sandbox_watch(sb, -EBADF);
}

void sandbox_set_status(struct sandbox *sb, enum sandbox_state state, const char *reason,
                        const char *message, int64_t now_us)
{
    sandbox_index_state(sb, state);
    sb->state = state;
    (void)snprintf(sb->reason, sizeof(sb->reason), "%s", reason);
    free(sb->message);
    sb->message = mem_strdup(message);
    sb->since_us = now_us;
    sandbox_arm(sb);
    events_publish(sb->table->conf.events, sb, NULL);
    if (sb->pool)
        pool_on_change(sb);
}

static void on_watch(struct loop_io *io, uint32_t events UNUSED)
{
    struct sandbox *sb = container_of(io, struct sandbox, watch);

    sandbox_watch(sb, -EBADF);
    sandbox_sync(sb);
}

void sandbox_watch(struct sandbox *sb, int fd)
{
    struct loop *loop = sb->table->conf.loop;
    struct err e = {0};

    if (sb->watch.fd >= 0) {
        int old = sb->watch.fd;

        loop_io_stop(loop, &sb->watch);
        fd_close(old);
    }
    if (fd >= 0 && loop_io_start(loop, &sb->watch, fd, EPOLLIN, on_watch, &e) < 0) {
        (void)log_err(&e, "sandbox=%s cannot be watched; its end will be noticed later", sb->id);
        fd_close(fd);
    }
}

/* --- expiry --- */

/* When the sandbox is to be removed; 0 = never. */
static int64_t due_us(const struct sandbox *sb)
{
    if (sandbox_is_left(sb))
        return 0;
    if (sb->expires_us && !runtime_can(sb->table->conf.runtime, RUNTIME_CAN_EXPIRE))
        return sb->expires_us;
    /* Clients do not delete a sandbox that never ran, so remove it after failed_ttl. */
    return strcmp(sb->reason, "PROVISIONING_ERROR") == 0
               ? sb->since_us + sb->table->conf.failed_ttl_us
               : 0;
}

void sandbox_attend(struct sandbox *sb)
{
    int64_t due = due_us(sb);

    if (sb->state == SANDBOX_STOPPING)
        sandbox_delete(sb, &principal_server, NULL, NULL); /* an unfinished delete */
    else if (due && due <= time_wall_us())
        sandbox_expire(sb);
    else if (sb->look_ms)
        sandbox_sync(sb);
    else
        sandbox_arm(sb);
}

static void on_due(struct loop_timer *timer)
{
    sandbox_attend(container_of(timer, struct sandbox, due));
}

void sandbox_arm(struct sandbox *sb)
{
    struct loop *loop = sb->table->conf.loop;
    int64_t due = due_us(sb), left_us = due - time_wall_us();
    uint64_t ms = DUE_AHEAD_MS;

    if (sb->gone || (due == 0 && sb->state != SANDBOX_STOPPING && !sb->look_ms)) {
        loop_timer_stop(loop, &sb->due);
        return;
    }
    if (sb->state == SANDBOX_STOPPING)
        ms = REMOVE_RETRY_MS;
    else if (due == 0)
        ms = sb->look_ms;
    else if (left_us <= 0)
        ms = 0;
    else if (left_us < DUE_AHEAD_MS * TIME_US_PER_MS)
        ms = (uint64_t)((left_us + TIME_US_PER_MS - 1) / TIME_US_PER_MS);
    if (sb->look_ms && sb->look_ms < ms)
        ms = sb->look_ms;
    loop_timer_set(loop, &sb->due, deadline_in_ms(ms), on_due);
}

void sandbox_retry(struct sandbox *sb)
{
    loop_timer_set(sb->table->conf.loop, &sb->due, deadline_in_ms(REMOVE_RETRY_MS), on_due);
}

void sandbox_look_later(struct sandbox *sb)
{
    sb->look_ms = sb->look_ms ? sb->look_ms * 2 : LOOK_MS_MIN;
    if (sb->look_ms > LOOK_MS_MAX)
        sb->look_ms = LOOK_MS_MAX;
    sandbox_arm(sb);
}

/* --- reading --- */

static bool is_visible(const struct sandbox *sb)
{
    return !sb->hidden && atomic_load_explicit(&sb->stored, memory_order_acquire);
}

struct sandbox *sandboxes_find(struct sandboxes *t, struct str id)
{
    struct sandbox *sb = map_get(&t->by_id, id);

    return sb && is_visible(sb) ? sb : NULL;
}

static struct sandbox *visible_from(struct sandboxes *t, struct list *at)
{
    for (; at != &t->order; at = at->prev) {
        struct sandbox *sb = container_of(at, struct sandbox, link);

        if (is_visible(sb))
            return sb;
    }
    return NULL;
}

struct sandbox *sandboxes_newest(struct sandboxes *t)
{
    return visible_from(t, t->order.prev);
}

struct sandbox *sandboxes_older(struct sandboxes *t, const struct sandbox *sb)
{
    return visible_from(t, sb->link.prev);
}

void sandbox_view(const struct sandbox *sb, struct api_sandbox *ret)
{
    *ret = (struct api_sandbox){
        .id = str_of(sb->id),
        .image = str_of(sb->image),
        .snapshot_id = str_of(sb->snapshot_id),
        .os = str_of(sb->os),
        .arch = str_of(sb->arch),
        .status = {sb->state, str_of(sb->reason), str_of(sb->message), sb->since_us},
        .metadata = str_of(sb->metadata),
        .entrypoint = str_of(sb->entrypoint),
        .secrets = str_of(sb->secrets ? sb->secrets : ""),
        .created_us = sb->created_us,
        .expires_us = sb->expires_us,
    };
}

size_t sandboxes_total(const struct sandboxes *t)
{
    return atomic_load(&t->stored);
}

void sandboxes_count(struct sandboxes *t, uint64_t counts[SANDBOX_STATE_COUNT])
{
    memset(counts, 0, SANDBOX_STATE_COUNT * sizeof(counts[0]));
    LIST_EACH(&t->order, at)
    counts[container_of(at, struct sandbox, link)->state]++;
}

void sandboxes_op_ended(struct sandboxes *t)
{
    if (--t->busy == 0 && t->conf.on_idle)
        t->conf.on_idle(t->conf.user);
}

char *sandbox_text(struct str s)
{
    char *p = mem_alloc(s.n + 1);

    memcpy(p, s.p ? s.p : "", s.n);
    p[s.n] = '\0';
    return p;
}

size_t sandboxes_busy(const struct sandboxes *t)
{
    return t->busy;
}

const char *sandbox_state_refusal(enum sandbox_state state)
{
    static const char *const texts[SANDBOX_STATE_COUNT] = {
        [SANDBOX_PENDING] = "the sandbox is still being created",
        [SANDBOX_PAUSING] = "the sandbox is being paused",
        [SANDBOX_PAUSED] = "the sandbox is paused",
        [SANDBOX_RESUMING] = "the sandbox is being resumed",
        [SANDBOX_STOPPING] = "the sandbox is being removed",
        [SANDBOX_TERMINATED] = "the sandbox has ended",
        [SANDBOX_FAILED] = "the sandbox has failed",
    };

    return texts[state];
}
