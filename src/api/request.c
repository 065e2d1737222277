#include "api/request.h"

#include <errno.h>

#include "api/body.h"
#include "api/metadata.h"
#include "base/time.h"

enum { SNAPSHOT_NAME_BYTES_MAX = 253, POOL_NAME_BYTES_MAX = 253 };

/* --- renewal --- */

static int parse_time(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                      struct err *e)
{
    if (v->type != JSON_STRING && v->type != JSON_NUMBER)
        return err_set(e, EBADMSG, "expected a time, got %s", json_type_name(v));
    if (time_parse_lenient(v->type == JSON_STRING ? v->string : v->text, ret, NULL) < 0)
        return err_set(e, EBADMSG, "expected a time like 2030-01-31T12:00:00Z, got '%s'",
                       api_show(v->type == JSON_STRING ? v->string : v->text).text);
    return 0;
}

struct renew_body {
    int64_t expires_us;
};
static const struct json_field renew_fields[] = {
    JSON_FIELD("expiresAt", JSON_AS_CUSTOM, JSON_REQUIRED, struct renew_body, expires_us,
               .parse = parse_time),
};
static const struct json_table renew_table =
    JSON_TABLE(struct renew_body, renew_fields, JSON_SNAKE);

int api_renew_parse(struct arena *a, struct str type, struct str body, int64_t *ret_expires_us,
                    struct api_fail *f)
{
    struct renew_body b = {0};
    int r = api_body_bind(a, type, body, &renew_table, &b, f);

    if (r == 0)
        *ret_expires_us = b.expires_us;
    return r;
}

/* --- snapshots --- */

struct snapshot_body {
    struct str name;
};
static const struct json_field snapshot_fields[] = {
    JSON_FIELD("name", JSON_AS_STR, JSON_NULLABLE, struct snapshot_body, name, .min = 1,
               .max = SNAPSHOT_NAME_BYTES_MAX),
};
static const struct json_table snapshot_table =
    JSON_TABLE(struct snapshot_body, snapshot_fields, 0);

int api_snapshot_create_parse(struct arena *a, struct str type, struct str body,
                              struct str *ret_name, struct api_fail *f)
{
    struct snapshot_body b = {STR("")};
    int r = 0;

    if (body.n && !str_eq(str_trim(body), STR("null")))
        r = api_body_bind(a, type, body, &snapshot_table, &b, f);
    if (r == 0)
        *ret_name = b.name;
    return r;
}

/* --- pools --- */

struct capacity {
    int64_t buffer_max, buffer_min, pool_max, pool_min;
};

struct pool_body {
    struct str name;
    const struct json *template;
    struct capacity capacity;
};

#define CAPACITY(name, member)                                                                     \
    JSON_FIELD(name, JSON_AS_CUSTOM, JSON_REQUIRED, struct capacity, member,                       \
               .parse = api_parse_integer, .max = INT32_MAX)
static const struct json_field capacity_fields[] = {
    CAPACITY("bufferMax", buffer_max),
    CAPACITY("bufferMin", buffer_min),
    CAPACITY("poolMax", pool_max),
    CAPACITY("poolMin", pool_min),
};
static const struct json_table capacity_table =
    JSON_TABLE(struct capacity, capacity_fields, JSON_SNAKE);

#define CAPACITY_SPEC                                                                              \
    JSON_FIELD("capacitySpec", JSON_AS_OBJECT, JSON_REQUIRED, struct pool_body, capacity,          \
               .table = &capacity_table)
static const struct json_field pool_fields[] = {
    JSON_FIELD("name", JSON_AS_STR, JSON_REQUIRED, struct pool_body, name),
    JSON_FIELD("template", JSON_AS_RAW, JSON_REQUIRED, struct pool_body, template),
    CAPACITY_SPEC,
};
static const struct json_field pool_update_fields[] = {CAPACITY_SPEC};
static const struct json_table pool_table = JSON_TABLE(struct pool_body, pool_fields, JSON_SNAKE);
static const struct json_table pool_update_table =
    JSON_TABLE(struct pool_body, pool_update_fields, JSON_SNAKE);

int api_pool_parse(struct arena *a, struct str type, struct str body, bool create,
                   struct api_fail *f)
{
    struct pool_body b = {0};
    int r = api_body_bind(a, type, body, create ? &pool_table : &pool_update_table, &b, f);

    if (r < 0 || !create)
        return r;
    if (!api_is_name(b.name, POOL_NAME_BYTES_MAX))
        return api_fail_invalid(f, "name: expected 1 to %d lower-case letters, digits or inner '-'",
                                POOL_NAME_BYTES_MAX);
    if (b.template->type != JSON_OBJECT)
        return api_fail_invalid(f, "template: expected an object, got %s",
                                json_type_name(b.template));
    return 0;
}
