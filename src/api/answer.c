#include "api/answer.h"

#include "base/utf8.h"

/* --- pieces --- */

static void put_str(struct json_writer *w, struct str key, struct str value)
{
    if (value.n > 0)
        json_member_string(w, key, value);
}

static void put_time(struct json_writer *w, struct str key, int64_t us)
{
    if (us != 0)
        json_member_time(w, key, us);
}

static void put_raw(struct json_writer *w, struct str key, struct str json)
{
    json_write_key(w, key);
    json_write_raw(w, json);
}

static void put_status(struct json_writer *w, const struct api_status *status)
{
    json_write_key(w, STR("status"));
    json_write_object(w);
    put_str(w, STR("state"), str_of(sandbox_state_name(status->state)));
    put_str(w, STR("reason"), status->reason);
    put_str(w, STR("message"), status->message);
    put_time(w, STR("lastTransitionAt"), status->since_us);
    json_write_object_end(w);
}

static void put_platform(struct json_writer *w, const struct api_sandbox *s)
{
    if (s->os.n == 0 && s->arch.n == 0)
        return;
    json_write_key(w, STR("platform"));
    json_write_object(w);
    put_str(w, STR("os"), s->os);
    put_str(w, STR("arch"), s->arch);
    json_write_object_end(w);
}

static void put_image(struct json_writer *w, struct str uri)
{
    if (uri.n == 0)
        return;
    json_write_key(w, STR("image"));
    json_write_object(w);
    put_str(w, STR("uri"), uri);
    json_write_object_end(w);
}

static void put_metadata(struct json_writer *w, struct str json)
{
    if (json.n && !str_eq(json, STR("{}")))
        put_raw(w, STR("metadata"), json);
}

static void put_entrypoint(struct json_writer *w, struct str json)
{
    put_raw(w, STR("entrypoint"), json.n ? json : STR("[]"));
}

static void put_strings(struct json_writer *w, const struct json_pair *pairs, size_t count)
{
    json_write_object(w);
    for (size_t i = 0; i < count; i++)
        json_member_string(w, pairs[i].key, pairs[i].value);
    json_write_object_end(w);
}

/* --- sandboxes --- */

int api_created_write(struct buf *out, const struct api_sandbox *s)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    put_str(&w, STR("id"), s->id);
    put_status(&w, &s->status);
    put_metadata(&w, s->metadata);
    put_platform(&w, s);
    put_time(&w, STR("expiresAt"), s->expires_us);
    put_time(&w, STR("createdAt"), s->created_us);
    put_entrypoint(&w, s->entrypoint);
    json_write_object_end(&w);
    return json_write_end(&w);
}

static void put_sandbox(struct json_writer *w, const struct api_sandbox *s)
{
    json_write_object(w);
    put_str(w, STR("id"), s->id);
    put_image(w, s->image);
    put_str(w, STR("snapshotId"), s->snapshot_id);
    put_platform(w, s);
    put_status(w, &s->status);
    put_metadata(w, s->metadata);
    put_entrypoint(w, s->entrypoint);
    put_time(w, STR("expiresAt"), s->expires_us);
    put_time(w, STR("createdAt"), s->created_us);
    json_write_object_end(w);
}

int api_sandbox_write(struct buf *out, const struct api_sandbox *s)
{
    struct json_writer w;

    json_write_begin(&w, out);
    put_sandbox(&w, s);
    return json_write_end(&w);
}

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
    put_sandbox(&p->w, s);
}

int api_page_end(struct api_page *p, uint64_t total_items)
{
    uint64_t pages = total_items / p->page_size + (total_items % p->page_size != 0);
    struct json_writer *w = &p->w;

    json_write_array_end(w);
    json_write_key(w, STR("pagination"));
    json_write_object(w);
    json_member_u64(w, STR("page"), p->page);
    json_member_u64(w, STR("pageSize"), p->page_size);
    json_member_u64(w, STR("totalItems"), total_items);
    json_member_u64(w, STR("totalPages"), pages);
    json_member_bool(w, STR("hasNextPage"), p->page < pages);
    json_write_object_end(w);
    json_write_object_end(w);
    return json_write_end(w);
}

/* --- the rest --- */

int api_endpoint_write(struct buf *out, struct str endpoint, const struct json_pair *headers,
                       size_t header_count)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    put_str(&w, STR("endpoint"), endpoint);
    if (header_count) {
        json_write_key(&w, STR("headers"));
        put_strings(&w, headers, header_count);
    }
    json_write_object_end(&w);
    return json_write_end(&w);
}

int api_expires_write(struct buf *out, int64_t expires_us)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    put_time(&w, STR("expiresAt"), expires_us);
    json_write_object_end(&w);
    return json_write_end(&w);
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

int api_diag_write(struct buf *out, struct str sandbox_id, enum api_diag_kind kind,
                   struct str scope, struct str content_type, struct str content, bool truncated)
{
    static const char *const kinds[] = {
        [API_DIAG_LOGS] = "logs",
        [API_DIAG_EVENTS] = "events",
        [API_DIAG_INSPECT] = "inspect",
        [API_DIAG_SUMMARY] = "summary",
    };
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    put_str(&w, STR("sandboxId"), sandbox_id);
    put_str(&w, STR("kind"), str_of(kinds[kind]));
    put_str(&w, STR("scope"), scope);
    put_str(&w, STR("delivery"), STR("inline"));
    put_str(&w, STR("contentType"), content_type);
    json_write_key(&w, STR("content")); /* inline requires it, even when empty */
    json_write_string(&w, content);
    json_member_u64(&w, STR("contentLength"), sent_bytes(content));
    json_member_bool(&w, STR("truncated"), truncated);
    json_write_object_end(&w);
    return json_write_end(&w);
}

int api_pairs_write(struct buf *out, const struct json_pair *pairs, size_t count)
{
    struct json_writer w;

    json_write_begin(&w, out);
    put_strings(&w, pairs, count);
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
