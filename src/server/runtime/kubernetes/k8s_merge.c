#include "server/runtime/kubernetes/k8s_merge.h"

/* Lists whose elements have a key. */
static const struct keyed {
    struct str list, key;
} keyed[] = {
    {STR_INIT("containers"),     STR_INIT("name")     },
    {STR_INIT("initContainers"), STR_INIT("name")     },
    {STR_INIT("volumes"),        STR_INIT("name")     },
    {STR_INIT("env"),            STR_INIT("name")     },
    {STR_INIT("volumeMounts"),   STR_INIT("mountPath")},
};

/* Times of the end: of the request alone. */
static const struct str never_below[] = {STR_INIT("expireTime"), STR_INIT("shutdownTime")};

struct merge {
    struct json_writer *w;
    struct str main_name;
};

static void merge_value(const struct merge *m, struct str key, const struct json *over,
                        const struct json *under);

static const struct keyed *keyed_of(struct str list)
{
    for (size_t i = 0; i < ARRAY_LEN(keyed); i++)
        if (str_eq(list, keyed[i].list))
            return &keyed[i];
    return NULL;
}

static bool is_set(const struct json *v)
{
    return v && v->type != JSON_NULL;
}

static bool counts_below(const struct json *v)
{
    for (size_t i = 0; i < ARRAY_LEN(never_below); i++)
        if (v && str_eq(v->key, never_below[i]))
            return false;
    return is_set(v);
}

static struct str key_of(const struct json *element, struct str key)
{
    struct str text = STR_NONE;

    (void)!json_to_str(json_get(element, key), &text);
    return text;
}

static const struct json *find_by_key(const struct json *list, struct str key, struct str value)
{
    json_each(item, list)
    {
        if (value.p && str_eq(key_of(item, key), value))
            return item;
    }
    return NULL;
}

/* What `element` is laid over. A template may call its only container as it likes. */
static const struct json *partner_of(const struct merge *m, const struct keyed *k,
                                     const struct json *element, const struct json *under)
{
    struct str value = key_of(element, k->key);
    const struct json *found = find_by_key(under, k->key, value);

    if (found || !str_eq(k->list, STR("containers")) || !str_eq(value, m->main_name))
        return found;
    return json_first(under);
}

static bool is_partner(const struct merge *m, const struct keyed *k, const struct json *over,
                       const struct json *candidate, const struct json *under)
{
    json_each(item, over)
    {
        if (partner_of(m, k, item, under) == candidate)
            return true;
    }
    return false;
}

static void merge_list(const struct merge *m, const struct keyed *k, const struct json *over,
                       const struct json *under)
{
    json_write_array(m->w);
    json_each(item, over) merge_value(m, STR_NONE, item, partner_of(m, k, item, under));
    json_each(item, under)
    {
        if (!is_partner(m, k, over, item, under))
            json_write_value(m->w, item);
    }
    json_write_array_end(m->w);
}

static void merge_object(const struct merge *m, const struct json *over, const struct json *under)
{
    json_write_object(m->w);
    json_each(item, over)
    {
        const struct json *below = json_get(under, item->key);

        if (!is_set(item) && !counts_below(below))
            continue;
        json_write_key(m->w, item->key);
        merge_value(m, item->key, item, below);
    }
    json_each(item, under)
    {
        if (json_get(over, item->key) || !counts_below(item))
            continue;
        json_write_key(m->w, item->key);
        json_write_value(m->w, item);
    }
    json_write_object_end(m->w);
}

static void merge_value(const struct merge *m, struct str key, const struct json *over,
                        const struct json *under)
{
    const struct keyed *k = keyed_of(key);

    if (!is_set(over))
        json_write_value(m->w, under);
    else if (is_set(under) && over->type == JSON_OBJECT && under->type == JSON_OBJECT)
        merge_object(m, over, under);
    else if (is_set(under) && k && over->type == JSON_ARRAY && under->type == JSON_ARRAY)
        merge_list(m, k, over, under);
    else
        json_write_value(m->w, over);
}

void k8s_merge_write(struct json_writer *w, const struct json *over, const struct json *under,
                     struct str main_name)
{
    const struct merge m = {w, main_name};

    if (is_set(over) || is_set(under))
        merge_value(&m, STR_NONE, over, under);
    else
        json_write_null(w);
}
