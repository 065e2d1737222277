/* answer.c - answers that are kept: body, headers, values by path; and requests by hand. */
#include <errno.h>
#include <stdio.h>

#include "api/answer.h"
#include "api/body.h"
#include "api/execd.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "sdk.h"

enum { ANSWER_ARENA_BYTES_MAX = 1 << 30 };

struct osb_info {
    struct api_sandbox s;
    const struct json *json;
    struct osb_answer *answer;
};

struct osb_file {
    struct api_file f;
    const struct json *json;
    struct osb_answer *answer;
};

/* --- reading --- */

static int take_headers(struct exchange *x, struct osb_answer *a)
{
    a->headers.rows = arena_new_array(&a->arena, struct http_header, x->headers.count);
    if (!a->headers.rows)
        return -ENOMEM;
    for (size_t i = 0; i < x->headers.count; i++) {
        a->headers.rows[i].name = arena_str(&a->arena, x->headers.rows[i].name);
        a->headers.rows[i].value = arena_str(&a->arena, x->headers.rows[i].value);
        if (!a->headers.rows[i].name.p || !a->headers.rows[i].value.p)
            return -ENOMEM;
    }
    a->headers.count = x->headers.count;
    return 0;
}

static int read_body(struct exchange *x, struct osb_answer *a)
{
    struct json_limits limits = {.text_bytes_max = SDK_BODY_BYTES_MAX};
    struct str piece;
    struct err e;
    int r;

    while ((r = exchange_next(x, &piece)) == 1)
        if (buf_add(&a->body, piece) < 0)
            return fail(x->client, EFBIG, "%s: an answer of more than %d MiB", x->site->authority,
                        SDK_BODY_BYTES_MAX >> 20);
    if (r < 0)
        return r;
    if (a->body.n && api_is_json_type(http_header_get(&a->headers, STR("Content-Type"))) &&
        json_parse(&a->arena, buf_str(&a->body), &limits, &a->json, &e) < 0)
        return fail(x->client, EBADMSG, "%s: an answer that is no JSON: %s", x->site->authority,
                    e.msg);
    return 0;
}

int answer_read(struct exchange *x, struct osb_answer **ret)
{
    struct osb_answer *a = mem_new(struct osb_answer);
    int r;

    arena_init(&a->arena, ANSWER_ARENA_BYTES_MAX);
    buf_init(&a->body, SDK_BODY_BYTES_MAX);
    a->status = x->status;
    r = take_headers(x, a) < 0 ? fail(x->client, ENOMEM, "no memory left for an answer")
                               : read_body(x, a);
    if (r < 0) {
        osb_answer_free(a);
        return r;
    }
    *ret = a;
    return 0;
}

int answer_of_json(struct exchange *x, const struct json *v, struct osb_answer **ret)
{
    struct json_limits limits = {.text_bytes_max = SDK_BODY_BYTES_MAX};
    struct osb_answer *a = mem_new(struct osb_answer);
    struct json_writer w;
    struct err e;

    arena_init(&a->arena, ANSWER_ARENA_BYTES_MAX);
    buf_init(&a->body, SDK_BODY_BYTES_MAX);
    a->status = x->status;
    json_write_begin(&w, &a->body);
    json_write_value(&w, v);
    if (!v || json_write_end(&w) < 0 || take_headers(x, a) < 0 ||
        json_parse(&a->arena, buf_str(&a->body), &limits, &a->json, &e) < 0) {
        osb_answer_free(a);
        return fail(x->client, EBADMSG, "%s: the last event of the stream has nothing in it",
                    x->site->authority);
    }
    *ret = a;
    return 0;
}

int simple_call(struct osb_client *c, const struct simple *s, struct osb_answer **ret)
{
    struct exchange_spec spec = {
        .site = s->site,
        .method = s->method,
        .target = buf_str(&s->target->text),
        .content_type = s->body ? STR("application/json") : STR(""),
        .body = s->body ? buf_str(s->body) : STR(""),
    };
    struct osb_answer *a = NULL;
    struct exchange x = {0};
    int r;

    if (s->target->error < 0) {
        r = fail_target(c, s->target->error);
    } else if (s->body_error < 0) {
        r = fail(c, -s->body_error, "the body of the request is too large");
    } else {
        r = exchange_start(&x, c, &spec);
        if (r == 0)
            r = exchange_head(&x);
        if (r == 0)
            r = answer_read(&x, &a);
        exchange_close(&x);
    }
    target_done(s->target);
    if (r == 0 && ret)
        *ret = a;
    else
        osb_answer_free(a);
    return r;
}

void osb_answer_free(struct osb_answer *answer)
{
    if (!answer)
        return;
    buf_done(&answer->body);
    arena_done(&answer->arena);
    free(answer);
}

/* --- parts --- */

int osb_answer_status(const struct osb_answer *answer)
{
    return answer->status;
}

const char *osb_answer_request_id(const struct osb_answer *answer)
{
    const char *id = osb_answer_header(answer, "X-Request-ID");

    return id ? id : "";
}

const char *osb_answer_header(const struct osb_answer *answer, const char *name)
{
    return http_header_get(&answer->headers, str_of(name)).p;
}

const char *osb_answer_body(const struct osb_answer *answer, size_t *ret_bytes)
{
    if (ret_bytes)
        *ret_bytes = answer->body.n;
    return answer->body.p;
}

/* --- values by path --- */

/* Cuts a key off: quoted, or up to the next dot or bracket. */
static struct str cut_key(struct str *path)
{
    struct str key = *path;

    if (str_starts(key, STR("\""))) {
        key = str_skip(key, 1);
        key.n = str_find(key, '"');
        *path = str_skip(*path, min_size(path->n, key.n + 2));
    } else {
        key.n = min_size(str_find(key, '.'), str_find(key, '['));
        *path = str_skip(*path, key.n);
    }
    return key;
}

static const struct json *find(const struct json *v, const char *text)
{
    struct str path = str_of(text);

    while (v && path.n) {
        if (path.p[0] == '[') {
            size_t end = str_find(path, ']');
            uint64_t index;

            if (end == path.n || str_to_u64(str_make(path.p + 1, end - 1), &index) < 0)
                return NULL;
            v = v->type == JSON_ARRAY ? json_at(v, index) : NULL;
            path = str_skip(path, end + 1);
        } else {
            v = json_get(v, cut_key(&path));
        }
        if (path.n && path.p[0] == '.')
            path = str_skip(path, 1);
    }
    return v;
}

const char *answer_json_text(struct osb_answer *a, const struct json *v)
{
    AUTO_BUF(text, SDK_BODY_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &text);
    json_write_value(&w, v);
    return json_write_end(&w) < 0 ? NULL : arena_strdup(&a->arena, buf_str(&text));
}

const char *osb_answer_text(const struct osb_answer *answer, const char *path)
{
    const struct json *v = find(answer->json, path);

    if (!v || v->type == JSON_NULL)
        return NULL;
    /* The text that is made lives in the answer: it changes, but not what it says. */
    return v->type == JSON_STRING ? v->string.p
                                  : answer_json_text((struct osb_answer *)(uintptr_t)answer, v);
}

int64_t osb_answer_int(const struct osb_answer *answer, const char *path, int64_t otherwise)
{
    int64_t value;

    return json_to_i64(find(answer->json, path), &value) < 0 ? otherwise : value;
}

double osb_answer_number(const struct osb_answer *answer, const char *path, double otherwise)
{
    double value;

    return json_to_double(find(answer->json, path), &value) < 0 ? otherwise : value;
}

bool osb_answer_bool(const struct osb_answer *answer, const char *path, bool otherwise)
{
    bool value;

    return json_to_bool(find(answer->json, path), &value) < 0 ? otherwise : value;
}

bool osb_answer_has(const struct osb_answer *answer, const char *path)
{
    return find(answer->json, path);
}

size_t osb_answer_count(const struct osb_answer *answer, const char *path)
{
    return json_count(find(answer->json, path));
}

const char *osb_answer_key(const struct osb_answer *answer, const char *path, size_t index)
{
    const struct json *member = json_at(find(answer->json, path), index);

    return member ? member->key.p : NULL;
}

/* --- sandboxes --- */

/* One sandbox, or the items of a page. */
int answer_bind_infos(struct osb_client *c, struct osb_answer *a)
{
    const struct json *items = json_get(a->json, STR("items"));
    const struct json *v = items ? json_first(items) : a->json;
    size_t n = items ? json_count(items) : 1;
    struct err e;

    a->infos = arena_new_array(&a->arena, struct osb_info, n);
    if (!a->infos)
        return fail(c, ENOMEM, "no memory left for an answer");
    if (!a->json)
        return fail(c, EBADMSG, "%s: an answer without JSON", c->server.authority);
    for (size_t i = 0; i < n; i++, v = v->next) {
        a->infos[i].json = v;
        a->infos[i].answer = a;
        if (api_sandbox_read(&a->arena, v, &a->infos[i].s, &e) < 0)
            return fail(c, EBADMSG, "%s: a sandbox that does not fit: %s", c->server.authority,
                        e.msg);
    }
    a->info_count = n;
    return 0;
}

size_t osb_info_count(const struct osb_answer *answer)
{
    return answer->info_count;
}

const struct osb_info *osb_info_at(const struct osb_answer *answer, size_t index)
{
    return index < answer->info_count ? &answer->infos[index] : NULL;
}

static const char *or_empty(struct str s)
{
    return s.n ? s.p : "";
}

const char *osb_info_id(const struct osb_info *info)
{
    return or_empty(info->s.id);
}

const char *osb_info_state(const struct osb_info *info)
{
    struct str state = STR_NONE;

    (void)json_to_str(find(info->json, "status.state"), &state);
    return or_empty(state);
}

const char *osb_info_reason(const struct osb_info *info)
{
    return or_empty(info->s.status.reason);
}

const char *osb_info_message(const struct osb_info *info)
{
    return or_empty(info->s.status.message);
}

const char *osb_info_image(const struct osb_info *info)
{
    return or_empty(info->s.image);
}

const char *osb_info_metadata(const struct osb_info *info, const char *key)
{
    const struct json *v = json_get(json_get(info->json, STR("metadata")), str_of(key));

    return v && v->type == JSON_STRING ? v->string.p : NULL;
}

int64_t osb_info_created_us(const struct osb_info *info)
{
    return info->s.created_us;
}

int64_t osb_info_expires_us(const struct osb_info *info)
{
    return info->s.expires_us;
}

const char *osb_info_json(const struct osb_info *info)
{
    return answer_json_text(info->answer, info->json);
}

/* --- files --- */

/* An array, or an object by path. */
int answer_bind_files(struct osb_client *c, struct osb_answer *a)
{
    size_t n = json_count(a->json), i = 0;
    struct err e;

    a->files = arena_new_array(&a->arena, struct osb_file, n);
    if (!a->files)
        return fail(c, ENOMEM, "no memory left for an answer");
    json_each(v, a->json)
    {
        a->files[i].json = v;
        a->files[i].answer = a;
        if (api_file_read(&a->arena, v, &a->files[i].f, &e) < 0)
            return fail(c, EBADMSG, "the sandbox: a file that does not fit: %s", e.msg);
        i++;
    }
    a->file_count = n;
    return 0;
}

size_t osb_file_count(const struct osb_answer *answer)
{
    return answer->file_count;
}

const struct osb_file *osb_file_at(const struct osb_answer *answer, size_t index)
{
    return index < answer->file_count ? &answer->files[index] : NULL;
}

const char *osb_file_path(const struct osb_file *file)
{
    return or_empty(file->f.path);
}

const char *osb_file_type(const struct osb_file *file)
{
    return or_empty(file->f.type);
}

int64_t osb_file_size(const struct osb_file *file)
{
    return (int64_t)file->f.size;
}

unsigned osb_file_mode(const struct osb_file *file)
{
    return file->f.mode;
}

const char *osb_file_owner(const struct osb_file *file)
{
    return or_empty(file->f.owner);
}

const char *osb_file_group(const struct osb_file *file)
{
    return or_empty(file->f.group);
}

int64_t osb_file_modified_us(const struct osb_file *file)
{
    return file->f.modified_us;
}

const char *osb_file_json(const struct osb_file *file)
{
    return answer_json_text(file->answer, file->json);
}
