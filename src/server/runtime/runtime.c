#include "server/runtime/runtime.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

/* --- tasks --- */

void runtime_task_init(struct runtime_task *task, struct loop *loop)
{
    *task = (struct runtime_task){.loop = loop};
    (void)pthread_mutex_init(&task->lock, NULL);
}

void runtime_task_done(struct runtime_task *task)
{
    (void)pthread_mutex_destroy(&task->lock);
}

/* Delivers what came since the last delivery. The task may be gone after on_end. */
static void task_deliver(struct loop_task *post)
{
    struct runtime_task *task = container_of(post, struct runtime_task, post);
    char message[RUNTIME_MESSAGE_MAX];
    struct err e;
    bool ended;
    int r;

    (void)pthread_mutex_lock(&task->lock);
    task->posted = false;
    memcpy(message, task->message, sizeof(message));
    task->message[0] = '\0';
    ended = task->ended;
    r = task->result;
    e = task->err;
    (void)pthread_mutex_unlock(&task->lock);
    if (message[0] && !ended && task->on_progress)
        task->on_progress(task, message);
    if (ended)
        task->on_end(task, r, &e);
}

/* Call with the lock held: the loop cannot free the task before it is released. */
static void task_post(struct runtime_task *task)
{
    if (!task->posted)
        loop_post(task->loop, &task->post, task_deliver);
    task->posted = true;
}

void runtime_task_say(struct runtime_task *task, const char *fmt, ...)
{
    va_list ap;

    (void)pthread_mutex_lock(&task->lock);
    va_start(ap, fmt);
    (void)vsnprintf(task->message, sizeof(task->message), fmt, ap);
    va_end(ap);
    task_post(task);
    (void)pthread_mutex_unlock(&task->lock);
}

void runtime_task_end(struct runtime_task *task, int r, const struct err *e)
{
    (void)pthread_mutex_lock(&task->lock);
    task->ended = true;
    task->result = r;
    if (e)
        task->err = *e;
    if (r < 0 && !task->err.code)
        (void)err_sys(&task->err, -r, "the runtime failed");
    task_post(task);
    (void)pthread_mutex_unlock(&task->lock);
}

/* --- what a runtime can do --- */

int runtime_check_source(struct runtime *r, const struct api_create *spec, struct api_fail *f)
{
    if (spec->pool_ref.n && !runtime_can(r, RUNTIME_CAN_POOLS) &&
        !runtime_can(r, RUNTIME_CAN_OWN_POOLS))
        return api_fail_set(f, 400, "SANDBOX::UNSUPPORTED_POOL_REF",
                            "extensions.poolRef: this runtime has no pools; create without it");
    if (spec->snapshot_id.n && !runtime_can(r, RUNTIME_CAN_SNAPSHOT))
        return api_fail_set(f, 404, "SNAPSHOT::NOT_FOUND", "there is no snapshot '%.*s'",
                            STR_ARG(spec->snapshot_id));
    return r->ops->check_source ? r->ops->check_source(r, spec, f) : 0;
}

int runtime_check_abilities(struct runtime *r, const struct api_create *spec, struct api_fail *f)
{
    const struct {
        bool asked;
        unsigned bit;
        const char *refusal;
    } rows[] = {
        {spec->credential_proxy, RUNTIME_CAN_CREDENTIAL_PROXY,
         "credentialProxy: this runtime has no credential proxy"                                             },
        {spec->network_policy,   RUNTIME_CAN_NETWORK_POLICY,
         "networkPolicy: this runtime cannot enforce network policies; create without one"                   },
        {spec->hooks,            RUNTIME_CAN_HOOKS,
         "lifecycle: this runtime has no hooks; let the entrypoint do it"                                    },
        {spec->persistent,       RUNTIME_CAN_KEEP,
         "persistent: this runtime keeps no files of sandboxes that are stopped"                             },
        {spec->runtime.n != 0,   RUNTIME_CAN_CHOOSE,
         "extensions.runtime: this runtime has no others to choose from; create without it"                  },
        {spec->limits.gpus != 0, RUNTIME_CAN_GPUS,             "resourceLimits.gpu: this runtime has no GPUs"},
    };
    int result = r->ops->check_abilities ? r->ops->check_abilities(r, spec, f) : 0;

    for (size_t i = 0; result >= 0 && i < ARRAY_LEN(rows); i++)
        if (rows[i].asked && !runtime_can(r, rows[i].bit))
            result = api_fail_invalid(f, "%s", rows[i].refusal);
    return result;
}

int runtime_check(struct runtime *r, struct runtime_create *c, struct api_fail *f)
{
    const struct api_create *spec = c->spec;
    static const struct {
        unsigned bit;
        const char *name;
    } kinds[] = {
        [API_VOLUME_HOST] = {RUNTIME_CAN_VOLUME_HOST,    "host" },
        [API_VOLUME_PVC] = {RUNTIME_CAN_VOLUME_CLAIM,   "pvc"  },
        [API_VOLUME_OSSFS] = {RUNTIME_CAN_VOLUME_OBJECTS, "ossfs"},
    };

    for (size_t i = 0; i < spec->volumes_count; i++)
        if (!runtime_can(r, kinds[spec->volumes[i].kind].bit))
            return api_fail_set(f, 400, "VOLUME::UNSUPPORTED_BACKEND",
                                "volumes[%zu].%s: this runtime has no volumes of this kind", i,
                                kinds[spec->volumes[i].kind].name);
    return r->ops->check(r, c, f);
}

const char *runtime_code(const struct runtime *r, const char *code)
{
    for (const struct runtime_code *row = r->codes; row && row->usual; row++)
        if (strcmp(row->usual, code) == 0)
            return row->here;
    return code;
}

/* --- kinds --- */

const struct runtime_kind *runtime_kind_find(struct str name)
{
    for (size_t i = 0; i < runtime_kind_count; i++)
        if (str_eq(name, str_of(runtime_kinds[i]->name)))
            return runtime_kinds[i];
    return NULL;
}
