#include "operator/strategic.h"

#include <errno.h>

#include "operator/doc.h"

enum { STRATEGIC_DEPTH_MAX = 64 };

struct list_rule {
    const char *name, *key; /* key NULL: a set of primitives */
};

/* Lists of a Pod that merge. Names are unique in it, so a path is not needed. */
static const struct list_rule pod_lists[] = {
    {"containers",                "name"         },
    {"initContainers",            "name"         },
    {"ephemeralContainers",       "name"         },
    {"volumes",                   "name"         },
    {"imagePullSecrets",          "name"         },
    {"hostAliases",               "ip"           },
    {"topologySpreadConstraints", "topologyKey"  },
    {"schedulingGates",           "name"         },
    {"resourceClaims",            "name"         },
    {"env",                       "name"         },
    {"ports",                     "containerPort"},
    {"volumeMounts",              "mountPath"    },
    {"volumeDevices",             "devicePath"   },
    {"ownerReferences",           "uid"          },
    {"finalizers",                NULL           },
};

struct merger {
    struct arena *arena;
    enum strategic_schema schema;
    unsigned depth;
    struct err *err;
};

static int merge_object(struct merger *m, struct json *target, const struct json *patch);

static const struct list_rule *rule_of(const struct merger *m, struct str name)
{
    if (m->schema != STRATEGIC_POD)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(pod_lists); i++)
        if (str_eq(name, str_of(pod_lists[i].name)))
            return &pod_lists[i];
    return NULL;
}

static bool is_directive(struct str key)
{
    return str_starts(key, STR("$"));
}

static struct str directive_of(const struct json *patch)
{
    struct str s;

    return json_to_str(json_get(patch, STR("$patch")), &s) < 0 ? STR_NONE : s;
}

/* A copy of a patch without its directives, for what the target does not have yet. */
static struct json *without_directives(struct merger *m, const struct json *patch)
{
    struct json *copy;

    if (patch->type != JSON_OBJECT)
        return doc_copy(m->arena, patch);
    copy = doc_object(m->arena);
    if (!copy || merge_object(m, copy, patch) < 0)
        return NULL;
    return copy;
}

static struct json *find_by_key(struct json *list, struct str key, const struct json *value)
{
    for (struct json *one = list->first; one; one = one->next)
        if (doc_equal(json_get(one, key), value))
            return one;
    return NULL;
}

static void list_drop(struct json *list, const struct json *which)
{
    for (struct json **at = &list->first; *at; at = &(*at)->next) {
        if (*at != which)
            continue;
        *at = (*at)->next;
        list->count--;
        return;
    }
}

static int merge_set(struct merger *m, struct json *list, const struct json *patch)
{
    json_each(one, patch)
    {
        bool has = false;

        json_each(old, list)
        {
            has |= doc_equal(old, one);
        }
        if (!has && doc_push(list, doc_copy(m->arena, one)) < 0)
            return err_set(m->err, ENOMEM, "the patched object is too large");
    }
    return 0;
}

static int merge_list_by_key(struct merger *m, struct json *list, const struct json *patch,
                             const struct list_rule *rule)
{
    struct str key = str_of(rule->key);

    json_each(one, patch)
    {
        const struct json *id = json_get(one, key);
        struct str directive = directive_of(one);
        struct json *old;
        int r;

        if (str_eq(directive, STR("replace")) && !id)
            continue; /* handled by the caller */
        if (!id)
            return err_set(m->err, EINVAL, "an element of '%s' has no '%s' to merge it by",
                           rule->name, rule->key);
        old = find_by_key(list, key, id);
        if (str_eq(directive, STR("delete"))) {
            if (old)
                list_drop(list, old);
            continue;
        }
        if (!old) {
            r = doc_push(list, without_directives(m, one));
        } else if (str_eq(directive, STR("replace"))) {
            old->first = NULL;
            old->count = 0;
            r = merge_object(m, old, one);
        } else {
            r = merge_object(m, old, one);
        }
        if (r < 0)
            return err_wrap(m->err, r, "element of '%s'", rule->name);
    }
    return 0;
}

/* {"$patch":"replace"} as an element: the rest of the patch is the whole list. */
static bool list_is_replaced(const struct json *patch)
{
    json_each(one, patch)
    {
        if (json_count(one) == 1 && str_eq(directive_of(one), STR("replace")))
            return true;
    }
    return false;
}

static int merge_list(struct merger *m, struct json *target, const struct json *patch)
{
    const struct list_rule *rule = rule_of(m, patch->key);
    struct json *old = doc_member(target, patch->key);
    struct json *list;

    if (!rule)
        return doc_set(m->arena, target, patch->key, doc_copy(m->arena, patch));
    list = old && old->type == JSON_ARRAY && !list_is_replaced(patch) ? old : doc_array(m->arena);
    if (list != old && doc_set(m->arena, target, patch->key, list) < 0)
        return err_set(m->err, ENOMEM, "the patched object is too large");
    return rule->key ? merge_list_by_key(m, list, patch, rule) : merge_set(m, list, patch);
}

/* $deleteFromPrimitiveList/<list>: [values] */
static void delete_primitives(struct json *target, const struct json *patch)
{
    struct str name = str_skip(patch->key, STR("$deleteFromPrimitiveList/").n);
    struct json *list = doc_member(target, name);

    if (!list || list->type != JSON_ARRAY)
        return;
    json_each(gone, patch)
    {
        for (struct json *one = list->first; one; one = one->next)
            if (doc_equal(one, gone)) {
                list_drop(list, one);
                break;
            }
    }
}

/* $setElementOrder/<list>: the elements it names come first, in its order. */
static void order_list(const struct merger *m, struct json *target, const struct json *patch)
{
    struct str name = str_skip(patch->key, STR("$setElementOrder/").n);
    const struct list_rule *rule = rule_of(m, name);
    struct json *list = doc_member(target, name), *sorted = NULL, **tail = &sorted;

    if (!list || list->type != JSON_ARRAY || !rule)
        return;
    json_each(wanted, patch)
    {
        for (struct json **at = &list->first; *at; at = &(*at)->next) {
            struct json *one = *at;
            struct str key = str_of(rule->key);
            bool same = rule->key ? doc_equal(json_get(one, key), json_get(wanted, key))
                                  : doc_equal(one, wanted);

            if (!same)
                continue;
            *at = one->next;
            *tail = one;
            tail = &one->next;
            *tail = NULL;
            break;
        }
    }
    *tail = list->first;
    list->first = sorted;
}

static void retain_keys(struct json *target, const struct json *keep)
{
    for (struct json **at = &target->first; *at;) {
        bool kept = false;

        json_each(key, keep)
        {
            kept |= key->type == JSON_STRING && str_eq(key->string, (*at)->key);
        }
        if (kept) {
            at = &(*at)->next;
            continue;
        }
        *at = (*at)->next;
        target->count--;
    }
}

static int merge_member(struct merger *m, struct json *target, const struct json *patch)
{
    struct json *old = doc_member(target, patch->key);

    if (patch->type == JSON_NULL) {
        (void)doc_remove(target, patch->key);
        return 0;
    }
    if (patch->type == JSON_ARRAY)
        return merge_list(m, target, patch);
    if (patch->type != JSON_OBJECT)
        return doc_set(m->arena, target, patch->key, doc_copy(m->arena, patch));
    if (str_eq(directive_of(patch), STR("delete"))) {
        (void)doc_remove(target, patch->key);
        return 0;
    }
    if (old && old->type == JSON_OBJECT && !str_eq(directive_of(patch), STR("replace")))
        return merge_object(m, old, patch);
    return doc_set(m->arena, target, patch->key, without_directives(m, patch));
}

static int merge_object(struct merger *m, struct json *target, const struct json *patch)
{
    const struct json *keep = json_get(patch, STR("$retainKeys"));
    int r = 0;

    if (m->depth == STRATEGIC_DEPTH_MAX)
        return err_set(m->err, EINVAL, "a patch deeper than %d levels", STRATEGIC_DEPTH_MAX);
    m->depth++;
    if (keep)
        retain_keys(target, keep);
    json_each(one, patch)
    {
        if (str_starts(one->key, STR("$deleteFromPrimitiveList/")))
            delete_primitives(target, one);
        if (is_directive(one->key))
            continue;
        r = merge_member(m, target, one);
        if (r < 0) {
            r = m->err->code ? r : err_set(m->err, -r, "the patched object is too large");
            break;
        }
    }
    json_each(one, patch)
    {
        if (r == 0 && str_starts(one->key, STR("$setElementOrder/")))
            order_list(m, target, one);
    }
    m->depth--;
    return r;
}

int strategic_apply(struct arena *a, const struct json *target, const struct json *patch,
                    enum strategic_schema schema, struct json **ret, struct err *e)
{
    struct err own = {0};
    struct merger m = {.arena = a, .schema = schema, .err = e ? e : &own};
    struct json *copy;
    int r;

    if (!patch || patch->type != JSON_OBJECT)
        return err_set(m.err, EINVAL, "a patch must be an object, not %s",
                       patch ? json_type_name(patch) : "nothing");
    copy = str_eq(directive_of(patch), STR("replace")) ? doc_object(a) : doc_copy(a, target);
    if (!copy)
        return err_set(m.err, ENOMEM, "the object is too large to be patched");
    r = merge_object(&m, copy, patch);
    if (r < 0)
        return r;
    *ret = copy;
    return 0;
}
