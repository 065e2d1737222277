#include "api/named_volume.h"

#include <errno.h>

#include "api/body.h"
#include "api/limits.h"
#include "api/metadata.h"

enum { SIZE_TEXT_MAX = 64 };

/* --- answers --- */

static const struct json_field id_element = {.as = JSON_AS_STR};

static const struct json_field volume_fields[] = {
    JSON_FIELD("name", JSON_AS_STR, JSON_REQUIRED, struct api_named_volume, name),
    JSON_FIELD("createdAt", JSON_AS_CUSTOM, JSON_REQUIRED, struct api_named_volume, created_us,
               .parse = api_parse_time, .print = api_print_time),
    JSON_FIELD("sizeBytes", JSON_AS_U64, JSON_NULLABLE, struct api_named_volume, size_bytes,
               .seen_at = JSON_SEEN(struct api_named_volume, has_limit)),
    JSON_FIELD("usedBytes", JSON_AS_U64, JSON_NULLABLE, struct api_named_volume, used_bytes,
               .seen_at = JSON_SEEN(struct api_named_volume, used_is_known)),
    JSON_LIST("usedBy", JSON_AS_ARRAY, JSON_REQUIRED, struct api_named_volume, used_by,
              .element = &id_element),
};
static const struct json_table volume_table = JSON_TABLE(struct api_named_volume, volume_fields, 0);

static void write_size(struct json_writer *w, struct str key, bool known, uint64_t bytes)
{
    if (known) {
        json_member_u64(w, key, bytes);
        return;
    }
    json_write_key(w, key);
    json_write_null(w);
}

static void write_volume(struct json_writer *w, const struct api_named_volume *v)
{
    json_write_object(w);
    json_member_string(w, STR("name"), v->name);
    json_member_time(w, STR("createdAt"), v->created_us);
    write_size(w, STR("sizeBytes"), v->has_limit, v->size_bytes);
    write_size(w, STR("usedBytes"), v->used_is_known, v->used_bytes);
    json_write_key(w, STR("usedBy"));
    json_write_array(w);
    for (size_t i = 0; i < v->used_by_count; i++)
        json_write_string(w, v->used_by[i]);
    json_write_array_end(w);
    json_write_object_end(w);
}

int api_named_volume_write(struct buf *out, const struct api_named_volume *v)
{
    struct json_writer w;

    json_write_begin(&w, out);
    write_volume(&w, v);
    return json_write_end(&w);
}

void api_page_add_named_volume(struct api_page *p, const struct api_named_volume *v)
{
    write_volume(&p->w, v);
}

int api_named_volume_read(struct arena *a, const struct json *v, struct api_named_volume *ret,
                          struct err *e)
{
    *ret = (struct api_named_volume){0};
    return json_bind(a, v, &volume_table, ret, e);
}

/* --- requests --- */

/* Removes ".25" from the text: 250000000 billionths. Digits past those are ignored. */
static int cut_fraction(struct str *text, char whole[SIZE_TEXT_MAX], uint64_t *ret_billionths)
{
    size_t dot = str_find(*text, '.'), end = dot + 1;
    uint64_t value = 0, place = 100000000;

    for (; end < text->n && ascii_is_digit(text->p[end]); end++, place /= 10)
        value += (uint64_t)(text->p[end] - '0') * place;
    if (dot == 0 || end == dot + 1)
        return -EINVAL;
    memcpy(whole, text->p, dot);
    memcpy(whole + dot, text->p + end, text->n - end);
    *text = str_make(whole, text->n - (end - dot));
    *ret_billionths = value;
    return 0;
}

int api_quantity_parse(struct str text, uint64_t *ret_bytes)
{
    char whole[SIZE_TEXT_MAX], unit[SIZE_TEXT_MAX + 1];
    uint64_t billionths = 0, bytes = 0, one = 1;
    size_t digits = 0;
    int r = 0;

    text = str_trim(text);
    if (text.n == 0 || text.n >= SIZE_TEXT_MAX)
        return -EINVAL;
    if (str_find(text, '.') < text.n)
        r = cut_fraction(&text, whole, &billionths);
    if (r < 0 || billionths == 0)
        return r < 0 ? r : api_bytes_parse(text, ret_bytes);
    while (digits < text.n && ascii_is_digit(text.p[digits]))
        digits++;
    unit[0] = '1'; /* "1Gi": what the fraction is of */
    memcpy(unit + 1, text.p + digits, text.n - digits);
    r = api_bytes_parse(str_make(unit, 1 + text.n - digits), &one);
    if (r == 0 && str_to_u64(str_make(text.p, digits), &bytes) == 0 && bytes > 0)
        r = api_bytes_parse(text, &bytes);
    if (r < 0)
        return r;
    bytes += (uint64_t)((unsigned __int128)one * billionths / 1000000000);
    if (bytes == 0 || bytes > INT64_MAX)
        return bytes ? -ERANGE : -EINVAL;
    *ret_bytes = bytes;
    return 0;
}

struct create_body {
    struct str name, size;
};

static const struct json_field create_fields[] = {
    JSON_FIELD("name", JSON_AS_STR, JSON_REQUIRED, struct create_body, name),
    JSON_FIELD("size", JSON_AS_STR, JSON_NULLABLE, struct create_body, size),
};
static const struct json_table create_table = JSON_TABLE(struct create_body, create_fields, 0);

int api_named_volume_create_parse(struct arena *a, struct str type, struct str body,
                                  struct api_named_volume_create *ret, struct api_fail *f)
{
    struct create_body b = {0};
    int r = api_body_bind(a, type, body, &create_table, &b, f);

    if (r < 0)
        return r;
    *ret = (struct api_named_volume_create){.name = b.name};
    if (!api_is_name(b.name, API_CLAIM_BYTES_MAX))
        return api_fail_set(f, 400, "VOLUME::INVALID_PVC_NAME",
                            "name: expected 1 to %d lower-case letters, digits or inner '-'",
                            API_CLAIM_BYTES_MAX);
    if (b.size.p && api_quantity_parse(b.size, &ret->size_bytes) < 0)
        return api_fail_set(f, 400, "VOLUME::INVALID_SIZE",
                            "size: expected a positive number of bytes, with or without a unit, "
                            "like 10Gi or 1.5Gi");
    return 0;
}
