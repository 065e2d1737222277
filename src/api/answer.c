#include "api/answer.h"

#include <errno.h>

#include "api/body.h"
#include "base/utf8.h"

enum { TEXT_BYTES_MAX = 1 << 20 };

/* --- rows, for both directions --- */

static void print_state(struct json_writer *w, const struct json_field *f, const void *from)
{
    json_member_string(w, str_of(f->name),
                       str_of(sandbox_state_name(*(const enum sandbox_state *)from)));
}

static int parse_state(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                       struct err *e)
{
    if (v->type != JSON_STRING)
        return err_set(e, EBADMSG, "expected a string, got %s", json_type_name(v));
    if (sandbox_state_parse(v->string, ret) < 0)
        *(enum sandbox_state *)ret = SANDBOX_STATE_COUNT;
    return 0;
}

/* JSON as a text of its own. */
static int parse_text(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                      struct err *e)
{
    AUTO_BUF(text, TEXT_BYTES_MAX);
    struct json_writer w;
    struct str copy;

    json_write_begin(&w, &text);
    json_write_value(&w, v);
    copy = json_write_end(&w) < 0 ? STR_NONE : arena_str(a, buf_str(&text));
    if (!copy.p)
        return err_set(e, ENOMEM, "too large");
    *(struct str *)ret = copy;
    return 0;
}

static void print_text(struct json_writer *w, const struct json_field *f, struct str json)
{
    json_write_key(w, str_of(f->name));
    json_write_raw(w, json);
}

static void print_metadata(struct json_writer *w, const struct json_field *f, const void *from)
{
    struct str json = *(const struct str *)from;

    if (json.n && !str_eq(json, STR("{}")))
        print_text(w, f, json);
}

static void print_entrypoint(struct json_writer *w, const struct json_field *f, const void *from)
{
    struct str json = *(const struct str *)from;

    print_text(w, f, json.n ? json : STR("[]"));
}

#define OPTIONAL_STR(name, type, member) JSON_FIELD(name, JSON_AS_STR, JSON_NULLABLE, type, member)
#define OPTIONAL_TIME(name, type, member)                                                          \
    JSON_FIELD(name, JSON_AS_CUSTOM, JSON_NULLABLE, type, member, .parse = api_parse_time,         \
               .print = api_print_time)

static const struct json_field status_fields[] = {
    JSON_FIELD("state", JSON_AS_CUSTOM, JSON_REQUIRED, struct api_status, state,
               .parse = parse_state, .print = print_state),
    OPTIONAL_STR("reason", struct api_status, reason),
    OPTIONAL_STR("message", struct api_status, message),
    OPTIONAL_TIME("lastTransitionAt", struct api_status, since_us),
};
static const struct json_table status_table = JSON_TABLE(struct api_status, status_fields, 0);

static const struct json_field platform_fields[] = {
    OPTIONAL_STR("os", struct api_sandbox, os),
    OPTIONAL_STR("arch", struct api_sandbox, arch),
};
static const struct json_table platform_table = JSON_TABLE(struct api_sandbox, platform_fields, 0);

static const struct json_field image_fields[] = {
    OPTIONAL_STR("uri", struct api_sandbox, image),
};
static const struct json_table image_table = JSON_TABLE(struct api_sandbox, image_fields, 0);

/* --- sandboxes --- */

/* Platform and image fill the sandbox itself, hence the offset 0. */
#define ROW_ID JSON_FIELD("id", JSON_AS_STR, JSON_REQUIRED, struct api_sandbox, id)
#define ROW_STATUS                                                                                 \
    JSON_FIELD("status", JSON_AS_OBJECT, JSON_REQUIRED, struct api_sandbox, status,                \
               .table = &status_table)
#define ROW_METADATA                                                                               \
    JSON_FIELD("metadata", JSON_AS_CUSTOM, JSON_NULLABLE, struct api_sandbox, metadata,            \
               .parse = parse_text, .print = print_metadata)
#define ROW_PLATFORM                                                                               \
    {                                                                                              \
        "platform", JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &platform_table                     \
    }
#define ROW_EXPIRES OPTIONAL_TIME("expiresAt", struct api_sandbox, expires_us)
#define ROW_CREATED OPTIONAL_TIME("createdAt", struct api_sandbox, created_us)
#define ROW_ENTRYPOINT                                                                             \
    JSON_FIELD("entrypoint", JSON_AS_CUSTOM, JSON_NULLABLE, struct api_sandbox, entrypoint,        \
               .parse = parse_text, .print = print_entrypoint)

static const struct json_field created_fields[] = {
    ROW_ID, ROW_STATUS, ROW_METADATA, ROW_PLATFORM, ROW_EXPIRES, ROW_CREATED, ROW_ENTRYPOINT,
};
static const struct json_table created_table = JSON_TABLE(struct api_sandbox, created_fields, 0);

static const struct json_field sandbox_fields[] = {
    ROW_ID,
    {"image", JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &image_table},
    OPTIONAL_STR("snapshotId", struct api_sandbox, snapshot_id),
    ROW_PLATFORM,
    ROW_STATUS,
    ROW_METADATA,
    ROW_ENTRYPOINT,
    JSON_FIELD("secretEnv", JSON_AS_CUSTOM, JSON_NULLABLE, struct api_sandbox, secrets,
               .parse = parse_text, .print = print_metadata),
    ROW_EXPIRES,
    ROW_CREATED,
};
static const struct json_table sandbox_table = JSON_TABLE(struct api_sandbox, sandbox_fields, 0);

static int write_bound(struct buf *out, const struct json_table *t, const void *from)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_bind_write(&w, t, from);
    return json_write_end(&w);
}

int api_created_write(struct buf *out, const struct api_sandbox *s)
{
    return write_bound(out, &created_table, s);
}

int api_sandbox_write(struct buf *out, const struct api_sandbox *s)
{
    return write_bound(out, &sandbox_table, s);
}

int api_sandbox_read(struct arena *a, const struct json *v, struct api_sandbox *ret, struct err *e)
{
    struct api_sandbox s = {0};
    int r = json_bind(a, v, &sandbox_table, &s, e);

    if (r == 0)
        *ret = s;
    return r;
}

/* --- pages --- */

static const struct json_field pagination_fields[] = {
    JSON_FIELD("page", JSON_AS_U32, 0, struct api_pagination, page),
    JSON_FIELD("pageSize", JSON_AS_U32, 0, struct api_pagination, page_size),
    JSON_FIELD("totalItems", JSON_AS_U64, JSON_REQUIRED, struct api_pagination, total_items),
    JSON_FIELD("totalPages", JSON_AS_U64, JSON_REQUIRED, struct api_pagination, total_pages),
    JSON_FIELD("hasNextPage", JSON_AS_BOOL, JSON_REQUIRED, struct api_pagination, has_next),
};
static const struct json_table pagination_table =
    JSON_TABLE(struct api_pagination, pagination_fields, 0);

void api_page_begin(struct api_page *p, struct buf *out, uint32_t page, uint32_t page_size)
{
    p->page = page;
    p->page_size = page_size;
    json_write_begin(&p->w, out);
    json_write_object(&p->w);
    json_write_key(&p->w, STR("items"));
    json_write_array(&p->w);
}

void api_page_add(struct api_page *p, const struct api_sandbox *s)
{
    json_bind_write(&p->w, &sandbox_table, s);
}

int api_page_end(struct api_page *p, uint64_t total_items)
{
    uint64_t pages = total_items / p->page_size + (total_items % p->page_size != 0);
    struct api_pagination numbers = {p->page, p->page_size, total_items, pages, p->page < pages};

    json_write_array_end(&p->w);
    json_write_key(&p->w, STR("pagination"));
    json_bind_write(&p->w, &pagination_table, &numbers);
    json_write_object_end(&p->w);
    return json_write_end(&p->w);
}

int api_page_read(struct arena *a, const struct json *v, const struct json **ret_items,
                  struct api_pagination *ret, struct err *e)
{
    const struct json *items = json_get(v, STR("items")), *numbers = json_get(v, STR("pagination"));
    struct api_pagination p = {0};
    int r;

    if (!items || items->type != JSON_ARRAY || !numbers)
        return err_set(e, EBADMSG, "expected a page with items and pagination");
    r = json_bind(a, numbers, &pagination_table, &p, e);
    if (r < 0)
        return err_wrap(e, r, "pagination");
    *ret_items = items;
    *ret = p;
    return 0;
}

/* --- the rest --- */

static const struct json_field endpoint_fields[] = {
    JSON_FIELD("endpoint", JSON_AS_STR, JSON_REQUIRED, struct api_endpoint, endpoint, .min = 1),
    JSON_LIST("headers", JSON_AS_MAP, JSON_NULLABLE, struct api_endpoint, headers,
              .max = API_ENDPOINT_HEADERS_MAX),
};
static const struct json_table endpoint_table = JSON_TABLE(struct api_endpoint, endpoint_fields, 0);

int api_endpoint_write(struct buf *out, struct str endpoint, const struct json_pair *headers,
                       size_t header_count)
{
    struct api_endpoint e = {endpoint, (struct json_pair *)(uintptr_t)headers, header_count};

    return write_bound(out, &endpoint_table, &e);
}

int api_endpoint_read(struct arena *a, const struct json *v, struct api_endpoint *ret,
                      struct err *e)
{
    struct api_endpoint endpoint = {0};
    int r = json_bind(a, v, &endpoint_table, &endpoint, e);

    if (r == 0)
        *ret = endpoint;
    return r;
}

struct expires {
    int64_t us;
};
static const struct json_field expires_fields[] = {
    OPTIONAL_TIME("expiresAt", struct expires, us),
};
static const struct json_table expires_table = JSON_TABLE(struct expires, expires_fields, 0);

int api_expires_write(struct buf *out, int64_t expires_us)
{
    return write_bound(out, &expires_table, &(struct expires){expires_us});
}

int api_expires_read(struct arena *a, const struct json *v, int64_t *ret_us, struct err *e)
{
    struct expires x = {0};
    int r = json_bind(a, v, &expires_table, &x, e);

    if (r == 0)
        *ret_us = x.us;
    return r;
}

/* Length of a text after the writer replaced each byte of invalid UTF-8 by U+FFFD. */
static uint64_t sent_bytes(struct str text)
{
    uint64_t n = 0;

    while (text.n) {
        size_t good = utf8_prefix(text);
        bool bad = good < text.n;

        n += good + (bad ? sizeof(UTF8_REPLACEMENT) - 1 : 0);
        text = str_skip(text, good + bad);
    }
    return n;
}

struct diag {
    struct str sandbox_id, kind, scope, delivery, content_type, content;
    uint64_t content_length;
    bool truncated;
};
/* Inline requires the content, even when it is empty. */
static const struct json_field diag_fields[] = {
    OPTIONAL_STR("sandboxId", struct diag, sandbox_id),
    OPTIONAL_STR("kind", struct diag, kind),
    OPTIONAL_STR("scope", struct diag, scope),
    OPTIONAL_STR("delivery", struct diag, delivery),
    OPTIONAL_STR("contentType", struct diag, content_type),
    JSON_FIELD("content", JSON_AS_STR, JSON_REQUIRED, struct diag, content),
    JSON_FIELD("contentLength", JSON_AS_U64, JSON_REQUIRED, struct diag, content_length),
    JSON_FIELD("truncated", JSON_AS_BOOL, JSON_REQUIRED, struct diag, truncated),
};
static const struct json_table diag_table = JSON_TABLE(struct diag, diag_fields, 0);

int api_diag_write(struct buf *out, struct str sandbox_id, enum api_diag_kind kind,
                   struct str scope, struct str content_type, struct str content, bool truncated)
{
    static const char *const kinds[] = {
        [API_DIAG_LOGS] = "logs",
        [API_DIAG_EVENTS] = "events",
        [API_DIAG_INSPECT] = "inspect",
        [API_DIAG_SUMMARY] = "summary",
    };
    struct diag d = {
        .sandbox_id = sandbox_id,
        .kind = str_of(kinds[kind]),
        .scope = scope,
        .delivery = STR("inline"),
        .content_type = content_type,
        .content = content,
        .content_length = sent_bytes(content),
        .truncated = truncated,
    };

    return write_bound(out, &diag_table, &d);
}

int api_pairs_write(struct buf *out, const struct json_pair *pairs, size_t count)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    for (size_t i = 0; i < count; i++)
        json_member_string(&w, pairs[i].key, pairs[i].value);
    json_write_object_end(&w);
    return json_write_end(&w);
}

int api_strs_write(struct buf *out, const struct str *strs, size_t count)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_array(&w);
    for (size_t i = 0; i < count; i++)
        json_write_string(&w, strs[i]);
    json_write_array_end(&w);
    return json_write_end(&w);
}
