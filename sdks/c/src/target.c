/* target.c - paths and queries of requests, and pairs and lists as src/api wants them. */
#include <errno.h>
#include <stdio.h>

#include "api/create.h"
#include "base/url.h"
#include "sdk.h"

static void note(struct target *t, int r)
{
    if (r < 0 && !t->error)
        t->error = r;
}

void target_init(struct target *t, const char *path)
{
    *t = (struct target){.has_query = strchr(path, '?')};
    buf_init(&t->text, SDK_TARGET_BYTES_MAX);
    note(t, buf_add(&t->text, str_of(path)));
}

/* "." and ".." would be taken for steps in the path: no id looks like that. */
void target_segment(struct target *t, const char *segment)
{
    struct str s = str_or_empty(segment);

    if (s.n == 0 || str_eq(s, STR(".")) || str_eq(s, STR("..")))
        note(t, -EINVAL);
    else
        note(t, url_encode(s, URL_SET_SEGMENT, &t->text));
}

void target_add(struct target *t, const char *path)
{
    note(t, buf_add(&t->text, str_of(path)));
}

void target_query(struct target *t, const char *name, const char *value)
{
    if (!value)
        return;
    note(t, buf_add_char(&t->text, t->has_query ? '&' : '?'));
    t->has_query = true;
    note(t, url_encode(str_of(name), URL_SET_QUERY_VALUE, &t->text));
    note(t, buf_add_char(&t->text, '='));
    note(t, url_encode(str_of(value), URL_SET_QUERY_VALUE, &t->text));
}

void target_query_i64(struct target *t, const char *name, int64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    target_query(t, name, text);
}

void target_page(struct target *t, const struct osb_filter *f)
{
    for (size_t i = 0; f->states && f->states[i]; i++)
        target_query(t, "state", f->states[i]);
    if (f->page)
        target_query_i64(t, "page", f->page);
    if (f->page_size)
        target_query_i64(t, "pageSize", f->page_size);
}

int fail_target(struct osb_client *c, int r)
{
    return r == -EINVAL ? fail(c, EINVAL, "an id or name is empty, or is \".\" or \"..\"")
                        : fail(c, -r, "the path of the request is too long");
}

void target_done(struct target *t)
{
    buf_done(&t->text);
}

struct json_pair *pairs_convert(struct arena *a, const struct osb_pair *pairs, size_t count)
{
    struct json_pair *out = arena_new_array(a, struct json_pair, count);

    for (size_t i = 0; out && i < count; i++)
        out[i] = (struct json_pair){str_of(pairs[i].name), str_of(pairs[i].value)};
    return out;
}

struct str *strs_convert(struct arena *a, const char *const *list, size_t *ret_count)
{
    struct str *out;
    size_t n = 0;

    while (list && list[n])
        n++;
    out = arena_new_array(a, struct str, n);
    for (size_t i = 0; out && i < n; i++)
        out[i] = str_of(list[i]);
    *ret_count = n;
    return out;
}

int pull_policy_of(struct osb_client *c, const char *text, int *ret)
{
    *ret = API_PULL_DEFAULT;
    if (!text)
        return 0;
    for (const struct json_name *n = api_pull_names; n->name; n++)
        if (strcmp(n->name, text) == 0) {
            *ret = n->value;
            return 0;
        }
    return fail(c, EINVAL, "pull policy '%.40s': expected IfNotPresent, Always or Never", text);
}
