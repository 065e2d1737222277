/* Objects of the cluster, written by any of its users: the first byte chooses the kind. Facts are
 * read, and a decision on the object alone is taken. */
#include "base/mem.h"
#include "fuzz.h"
#include "operator/decide.h"

enum { ROOM = 64 << 20 };

static const struct settings settings = {.registry = STR_INIT("r"), .commit_timeout_s = 1};

static void check_sandbox(const struct json *v)
{
    struct sandbox *s = sandbox_read(v, NULL);
    struct sandbox_in in = {.sandbox = s, .settings = &settings, .now_us = 1};
    struct plan p;

    if (!s)
        return;
    /* Its pods are not there. */
    in.allocated = mem_zalloc((s->alloc.count + 1) * sizeof(in.allocated[0]));
    in.allocated_pools = mem_zalloc((s->alloc.count + 1) * sizeof(in.allocated_pools[0]));
    plan_init(&p);
    sandbox_decide(&in, &p);
    plan_done(&p);
    free((void *)in.allocated);
    free((void *)in.allocated_pools);
    sandbox_free(s);
}

static void check_pool(const struct json *v)
{
    struct pool *pool = pool_facts_read(v, NULL);
    struct pool_in in = {.pool = pool, .now_us = 1};
    struct plan p;

    if (!pool)
        return;
    if (pool->pool_max > 100)
        pool->pool_max = 100;
    plan_init(&p);
    pool_decide(&in, &p);
    plan_done(&p);
    pool_facts_free(pool);
}

static void check_snapshot(const struct json *v)
{
    struct snapshot *s = snapshot_read(v, NULL);
    struct snapshot_in in = {.snapshot = s, .settings = &settings, .now_us = 1};
    struct plan p;

    if (!s)
        return;
    plan_init(&p);
    snapshot_decide(&in, &p);
    plan_done(&p);
    snapshot_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_ARENA(arena, ROOM);
    struct json *v;

    if (size == 0 ||
        json_parse(&arena, str_make((const char *)data + 1, size - 1), NULL, &v, NULL) < 0)
        return 0;
    switch (data[0]) {
    case 's':
        check_sandbox(v);
        break;
    case 'p':
        check_pool(v);
        break;
    case 'n':
        check_snapshot(v);
        break;
    default:
        pod_free(pod_read(v, NULL));
        job_free(job_read(v, NULL));
        (void)task_state_of(v, STR("box-0"));
    }
    return 0;
}
