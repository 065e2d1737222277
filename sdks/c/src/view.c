/* view.c - typed views of answers: one object, or the items of a page. */
#include <errno.h>

#include "sdk.h"

int answer_bind_views(struct osb_client *c, struct osb_answer *a)
{
    const struct json *items = json_get(a->json, STR("items"));
    const struct json *v = items ? json_first(items) : a->json;
    size_t n = items ? json_count(items) : 1;

    if (!a->json || a->json->type != JSON_OBJECT || (items && items->type != JSON_ARRAY))
        return fail(c, EBADMSG, "%s: an answer that is no object", c->server.authority);
    a->views = arena_new_array(&a->arena, struct view, n);
    if (!a->views)
        return fail(c, ENOMEM, "no memory left for an answer");
    for (size_t i = 0; i < n; i++, v = v->next) {
        if (v->type != JSON_OBJECT)
            return fail(c, EBADMSG, "%s: an item that is no object", c->server.authority);
        a->views[i] = (struct view){v, a};
    }
    a->view_count = n;
    return 0;
}

int with_views(struct osb_client *c, int r, struct osb_answer *a, struct osb_answer **ret)
{
    if (r == 0)
        r = answer_bind_views(c, a);
    if (r == 0 && ret)
        *ret = a;
    else
        osb_answer_free(a);
    return r;
}

int view_call(struct osb_client *c, const struct simple *s, struct osb_answer **ret)
{
    struct osb_answer *a = NULL;
    int r = simple_call(c, s, &a);

    return with_views(c, r, a, ret);
}

const struct view *view_at(const struct osb_answer *a, size_t index)
{
    return index < a->view_count ? &a->views[index] : NULL;
}

static const char *text_of(const struct json *v)
{
    return v && v->type == JSON_STRING ? v->string.p : NULL;
}

const char *view_text(const struct view *v, const char *key)
{
    const char *text = text_of(json_get(v->json, str_of(key)));

    return text ? text : "";
}

int64_t view_int(const struct view *v, const char *key, int64_t otherwise)
{
    int64_t value;

    return json_to_i64(json_get(v->json, str_of(key)), &value) < 0 ? otherwise : value;
}

const char *view_element(const struct view *v, const char *key, size_t index)
{
    const struct json *list = json_get(v->json, str_of(key));

    return list && list->type == JSON_ARRAY ? text_of(json_at(list, index)) : NULL;
}

const char *view_json(const struct view *v)
{
    return answer_json_text(v->answer, v->json);
}
