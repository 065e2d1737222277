/* assign.c - the choice of a pool for a BatchSandbox with poolRef "*".
 *
 * A profile names predicates, which a pool must pass, and scores with weights. The template of the
 * sandbox, if it has one, is only a description of what it needs. */
#include <errno.h>
#include <stdio.h>

#include "kube/object.h"
#include "kube/quantity.h"
#include "kube/selector.h"
#include "operator/decide.h"
#include "operator/doc.h"

struct choice {
    const struct sandbox *sandbox;
    const struct json *template; /* of the sandbox; NULL = none */
    const struct json *config;   /* pluginConf of the profile */
    struct arena *arena;
};

static const struct json *containers_of(const struct json *template)
{
    return kube_get(template, "spec.containers");
}

/* Some image of the template is an image of the pool. */
static bool fits_image(const struct choice *c, const struct pool *pool)
{
    size_t wanted = 0;

    json_each(want, containers_of(c->template))
    {
        wanted += kube_str(want, "image").n > 0;
        json_each(have, containers_of(pool->template))
        {
            if (kube_str(want, "image").n &&
                str_eq(kube_str(want, "image"), kube_str(have, "image")))
                return true;
        }
    }
    return wanted == 0;
}

/* The sum of what the containers request of a resource; false when none does. */
static bool requests_sum(const struct json *template, struct str resource,
                         struct kube_quantity *ret)
{
    bool any = false;

    *ret = (struct kube_quantity){0};
    json_each(container, containers_of(template))
    {
        const struct json *v = json_get(kube_get(container, "resources.requests"), resource);
        struct kube_quantity q;

        if (!v || kube_quantity_of(v, &q, NULL) < 0)
            continue;
        *ret = kube_quantity_add(*ret, q);
        any = true;
    }
    return any;
}

static bool fits_resource(const struct choice *c, const struct pool *pool)
{
    json_each(container, containers_of(c->template))
    {
        json_each(request, kube_get(container, "resources.requests"))
        {
            struct kube_quantity want, have;

            if (!requests_sum(c->template, request->key, &want))
                continue;
            if (!requests_sum(pool->template, request->key, &have) ||
                kube_quantity_cmp(want, have) > 0)
                return false;
        }
    }
    return true;
}

/* Labels of the pool, and over them the nodeSelector of its template. */
static const struct json *node_labels(const struct choice *c, const struct pool *pool)
{
    const struct json *own = kube_get(pool->object, "metadata.labels");
    struct json *labels = own ? doc_copy(c->arena, own) : doc_object(c->arena);

    json_each(one, kube_get(pool->template, "spec.nodeSelector"))
    {
        (void)doc_set(c->arena, labels, one->key, doc_copy(c->arena, one));
    }
    return labels;
}

static bool fits_affinity(const struct choice *c, const struct json *labels)
{
    const struct json *terms = kube_get(
        c->template, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
                     "nodeSelectorTerms");

    if (!json_count(terms))
        return true;
    json_each(term, terms)
    {
        struct kube_selector s;

        if (kube_selector_of(c->arena, term, &s, NULL) == 0 && kube_selector_matches(&s, labels))
            return true;
    }
    return false;
}

static bool fits_node_selector(const struct choice *c, const struct pool *pool)
{
    const struct json *labels = node_labels(c, pool);

    json_each(want, kube_get(c->template, "spec.nodeSelector"))
    {
        if (!doc_equal(json_get(labels, want->key), want))
            return false;
    }
    return fits_affinity(c, labels);
}

/* pluginConf: [{"name":"labelselector","args":{"keys":[...]}}] */
static const struct json *args_of(const struct choice *c, const char *plugin)
{
    json_each(one, c->config)
    {
        if (str_eq(kube_str(one, "name"), str_of(plugin)))
            return kube_get(one, "args");
    }
    return NULL;
}

static bool fits_labels(const struct choice *c, const struct pool *pool)
{
    json_each(key, kube_get(args_of(c, "labelselector"), "keys"))
    {
        const struct json *mine, *theirs;

        if (key->type != JSON_STRING)
            continue;
        mine = json_get(kube_get(c->sandbox->object, "metadata.labels"), key->string);
        theirs = json_get(kube_get(pool->object, "metadata.labels"), key->string);
        if (!mine || !doc_equal(mine, theirs))
            return false;
    }
    return true;
}

static const struct predicate {
    const char *name, *lack;
    bool (*fits)(const struct choice *c, const struct pool *pool);
} predicates[] = {
    {"image",         "has none of the images",       fits_image        },
    {"resource",      "has too few resources",        fits_resource     },
    {"nodeselector",  "runs on other nodes",          fits_node_selector},
    {"labelselector", "has other labels than wanted", fits_labels       },
};

/* The predicate that refuses the pool, or NULL. Unknown names are skipped. */
static const struct predicate *refused_by(const struct choice *c, const struct json *names,
                                          const struct pool *pool)
{
    for (size_t i = 0; i < ARRAY_LEN(predicates); i++) {
        bool used = !names && i < 3;

        json_each(name, names)
        {
            used |= name->type == JSON_STRING && str_eq(name->string, str_of(predicates[i].name));
        }
        if (used && !predicates[i].fits(c, pool))
            return &predicates[i];
    }
    return NULL;
}

static double balance_of(const struct choice *c, const struct pool *pool)
{
    int64_t total = kube_i64(pool->object, "status.total");
    int64_t allocated = kube_i64(pool->object, "status.allocated");
    double share = total > 0 ? (double)allocated / (double)total : 0;

    if (total <= 0)
        return 0;
    if (str_eq(kube_str(args_of(c, "resbalance"), "strategy"), STR("MostAllocated")))
        return share;
    return 1 - share;
}

static double score_of(const struct choice *c, const struct json *scores, const struct pool *pool)
{
    double sum = scores ? 0 : 100 * balance_of(c, pool);

    json_each(one, scores)
    {
        if (str_eq(kube_str(one, "name"), STR("resbalance")))
            sum += (double)kube_i64(one, "weight") * balance_of(c, pool);
    }
    return sum;
}

/* The profile "default", the only one that is used; NULL = the built-in one. */
static const struct json *profile_of(const struct json *profiles)
{
    json_each(one, profiles)
    {
        if (str_eq(kube_str(one, "name"), STR("default")))
            return one;
    }
    return NULL;
}

const struct pool *assign_pool(const struct sandbox *s, const struct pool *const *pools,
                               size_t count, const struct json *profiles, struct str *ret_why,
                               struct arena *a)
{
    const struct json *profile = profile_of(profiles);
    const struct json *names = kube_get(profile, "plugins.predicate");
    const struct json *scores = kube_get(profile, "plugins.score");
    struct choice c = {s, kube_get(s->object, "spec.template"), kube_get(profile, "pluginConf"), a};
    const struct pool *best = NULL;
    const struct predicate *why = NULL;
    double best_score = 0;

    for (size_t i = 0; i < count; i++) {
        const struct predicate *refused;
        double score;

        if (pools[i]->meta.deleting_us || pools[i]->problem.p)
            continue;
        refused = refused_by(&c, names, pools[i]);
        if (refused) {
            why = refused;
            continue;
        }
        score = score_of(&c, scores, pools[i]);
        if (!best || score > best_score ||
            (score == best_score && str_cmp(pools[i]->meta.name, best->meta.name) < 0)) {
            best = pools[i];
            best_score = score;
        }
    }
    if (!best)
        *ret_why = str_of(
            why ? arena_printf(a, "none of the %zu pools of the namespace fits: the last one %s",
                               count, why->lack)
                : "the namespace has no pool that could serve");
    return best;
}
