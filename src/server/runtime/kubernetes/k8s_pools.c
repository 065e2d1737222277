/* k8s_pools.c - pools: Pool objects, which the operator keeps filled with pods. */
#include <errno.h>

#include "base/time.h"
#include "server/runtime/kubernetes/k8s_internal.h"

enum { POOL_BODY_MAX = 4 << 20 };

static void write_capacity(struct json_writer *w, const struct api_capacity *c)
{
    json_write_key(w, STR("capacitySpec"));
    json_write_object(w);
    json_member_i64(w, STR("bufferMax"), c->buffer_max);
    json_member_i64(w, STR("bufferMin"), c->buffer_min);
    json_member_i64(w, STR("poolMax"), c->pool_max);
    json_member_i64(w, STR("poolMin"), c->pool_min);
    json_write_object_end(w);
}

static int write_pool(const struct k8s *k, const struct api_pool *pool, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("apiVersion"), STR(K8S_GROUP "/v1alpha1"));
    json_member_string(&w, STR("kind"), STR("Pool"));
    json_write_key(&w, STR("metadata"));
    json_write_object(&w);
    json_member_string(&w, STR("name"), pool->name);
    json_member_string(&w, STR("namespace"), str_of(k->namespace));
    json_write_object_end(&w);
    json_write_key(&w, STR("spec"));
    json_write_object(&w);
    json_write_key(&w, STR("template"));
    json_write_value(&w, pool->template);
    write_capacity(&w, &pool->capacity);
    json_write_object_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w);
}

static int write_resize(const struct api_pool *pool, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_write_key(&w, STR("spec"));
    json_write_object(&w);
    write_capacity(&w, &pool->capacity);
    json_write_object_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w);
}

static void show(const struct json *o, runtime_pool_visit_fn *visit, void *user)
{
    const struct json *c = kube_get(o, "spec.capacitySpec"), *s = json_get(o, STR("status"));
    struct runtime_pool p = {
        .name = kube_str(o, "metadata.name"),
        .capacity = {kube_i64(c, "bufferMax"), kube_i64(c, "bufferMin"), kube_i64(c, "poolMax"),
                     kube_i64(c, "poolMin")},
        .has_status = json_get(s, STR("total")) != NULL,
        .total = kube_i64(s, "total"),
        .allocated = kube_i64(s, "allocated"),
        .available = kube_i64(s, "available"),
        .revision = kube_str(s, "revision"),
    };

    (void)time_parse(kube_str(o, "metadata.creationTimestamp"), &p.created_us, NULL);
    visit(user, &p);
}

static int fail(struct api_fail *f, int r, struct str name, const struct err *e)
{
    if (r == -ENOENT)
        return api_fail_set(f, 404, "KUBERNETES::POOL_NOT_FOUND", "there is no pool '%s'",
                            api_show(name).text);
    if (r == -EEXIST)
        return api_fail_set(f, 409, "KUBERNETES::POOL_ALREADY_EXISTS",
                            "there is a pool '%s' already", api_show(name).text);
    if (r == -EINVAL)
        return api_fail_set(f, 400, "SANDBOX::INVALID_PARAMETER", "%s", e->msg);
    return api_fail_set(f, 500, "KUBERNETES::POOL_API_ERROR", "%s", e->msg);
}

int k8s_pools(struct runtime *r, enum runtime_pool_verb verb, const struct api_pool *pool,
              runtime_pool_visit_fn *visit, void *user, struct api_fail *f)
{
    static const enum kube_verb verbs[] = {
        [RUNTIME_POOL_LIST] = KUBE_LIST,     [RUNTIME_POOL_GET] = KUBE_GET,
        [RUNTIME_POOL_CREATE] = KUBE_CREATE, [RUNTIME_POOL_RESIZE] = KUBE_PATCH,
        [RUNTIME_POOL_DELETE] = KUBE_DELETE,
    };
    struct k8s *k = k8s_of(r);
    AUTO_BUF(body, POOL_BODY_MAX);
    auto_object *answer = NULL;
    struct err e = {0};
    bool named = verb != RUNTIME_POOL_LIST && verb != RUNTIME_POOL_CREATE;
    int result = verb == RUNTIME_POOL_CREATE   ? write_pool(k, pool, &body)
                 : verb == RUNTIME_POOL_RESIZE ? write_resize(pool, &body)
                                               : 0;

    if (result < 0)
        return api_fail_memory(f);
    result = k8s_call(k,
                      &(struct kube_request){.verb = verbs[verb],
                                             .kind = &kube_pools,
                                             .ns = str_of(k->namespace),
                                             .name = named ? pool->name : STR_NONE,
                                             .body = buf_str(&body)},
                      &answer, &e);
    if (result == -ENOENT && verb == RUNTIME_POOL_LIST)
        return 0; /* the cluster has no such kind */
    if (result < 0)
        return fail(f, result, pool->name, &e);
    if (verb == RUNTIME_POOL_LIST)
        json_each(item, json_get(answer ? answer->root : NULL, STR("items")))
            show(item, visit, user);
    else if (verb != RUNTIME_POOL_DELETE && answer)
        show(answer->root, visit, user);
    return 0;
}
