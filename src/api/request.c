#include "api/request.h"

#include <errno.h>

#include "api/body.h"
#include "api/create.h"
#include "api/metadata.h"

enum { SNAPSHOT_NAME_BYTES_MAX = 253 };

/* --- renewal --- */

struct renew_body {
    int64_t expires_us;
};
static const struct json_field renew_fields[] = {
    JSON_FIELD("expiresAt", JSON_AS_CUSTOM, JSON_REQUIRED, struct renew_body, expires_us,
               .parse = api_parse_time, .print = api_print_time),
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

static const struct json_field snapshot_fields[] = {
    JSON_FIELD("name", JSON_AS_STR, JSON_NULLABLE, struct api_snapshot_create, name, .min = 1,
               .max = SNAPSHOT_NAME_BYTES_MAX),
    JSON_FIELD("memory", JSON_AS_BOOL, JSON_NULLABLE, struct api_snapshot_create, memory),
};
static const struct json_table snapshot_table =
    JSON_TABLE(struct api_snapshot_create, snapshot_fields, 0);

int api_snapshot_create_parse(struct arena *a, struct str type, struct str body,
                              struct api_snapshot_create *ret, struct api_fail *f)
{
    struct api_snapshot_create b = {.name = STR("")};
    int r = 0;

    if (body.n && !str_eq(str_trim(body), STR("null")))
        r = api_body_bind(a, type, body, &snapshot_table, &b, f);
    if (r == 0)
        *ret = b;
    return r;
}

/* --- forks and rollbacks --- */

struct fork_body {
    struct api_fork out;
    int64_t count;
    const struct json *env;
};

static const struct json_field text_element = {.as = JSON_AS_STR};
static const struct json_field fork_fields[] = {
    JSON_FIELD("count", JSON_AS_CUSTOM, JSON_NULLABLE, struct fork_body, count, API_LENIENT_INTEGER,
               .min = 1, .max = API_FORK_MAX),
    JSON_FIELD("timeout", JSON_AS_CUSTOM, JSON_NULLABLE, struct fork_body, out.timeout_s,
               API_LENIENT_INTEGER, .min = API_TIMEOUT_S_MIN, .max = API_TIMEOUT_S_MAX),
    JSON_FIELD("env", JSON_AS_RAW, JSON_NULLABLE, struct fork_body, env),
    JSON_LIST("metadata", JSON_AS_MAP, JSON_NULLABLE, struct fork_body, out.metadata,
              .max = API_METADATA_MAX, .seen_at = JSON_SEEN(struct fork_body, out.has_metadata)),
    JSON_LIST("entrypoint", JSON_AS_ARRAY, JSON_NULLABLE, struct fork_body, out.entrypoint,
              .min = 1, .max = API_ENTRYPOINT_MAX, .element = &text_element),
    JSON_FIELD("memory", JSON_AS_BOOL, JSON_NULLABLE, struct fork_body, out.memory),
};
static const struct json_table fork_table = JSON_TABLE(struct fork_body, fork_fields, 0);

static bool is_none(struct str body)
{
    return body.n == 0 || str_eq(str_trim(body), STR("null"));
}

static int check_fork(const struct api_fork *fork, struct api_fail *f)
{
    for (size_t i = 0; i < fork->env_count; i++)
        if (fork->env[i].key.n == 0 || str_find(fork->env[i].key, '=') < fork->env[i].key.n)
            return api_fail_invalid(f,
                                    "env: '%s' is no name of a variable: it must not be empty nor "
                                    "hold a '='",
                                    api_show(fork->env[i].key).text);
    if (fork->entrypoint_count && fork->entrypoint[0].n == 0)
        return api_fail_set(f, 400, "DOCKER::INVALID_ENTRYPOINT",
                            "entrypoint[0]: expected the name of a program, got nothing");
    return 0;
}

int api_fork_parse(struct arena *a, struct str type, struct str body, struct api_fork *ret,
                   struct api_fail *f)
{
    struct fork_body b = {.count = 1};
    int r = is_none(body) ? 0 : api_body_bind(a, type, body, &fork_table, &b, f);

    if (r == 0 && b.env)
        r = api_pairs_parse(a, b.env, "env", API_ENV_MAX, &b.out.env, &b.out.env_count, f);
    if (r == 0)
        r = check_fork(&b.out, f);
    if (r == 0) {
        b.out.count = (uint32_t)b.count;
        *ret = b.out;
    }
    return r;
}

struct rollback_body {
    struct str snapshot_id;
};
static const struct json_field rollback_fields[] = {
    JSON_FIELD("snapshotId", JSON_AS_STR, JSON_REQUIRED, struct rollback_body, snapshot_id,
               .min = 1, .max = SNAPSHOT_NAME_BYTES_MAX),
};
static const struct json_table rollback_table =
    JSON_TABLE(struct rollback_body, rollback_fields, JSON_SNAKE);

int api_rollback_parse(struct arena *a, struct str type, struct str body, struct str *ret_snapshot,
                       struct api_fail *f)
{
    struct rollback_body b = {0};
    int r = api_body_bind(a, type, body, &rollback_table, &b, f);

    if (r == 0)
        *ret_snapshot = b.snapshot_id;
    return r;
}

/* --- pools --- */

#define CAPACITY(name, member)                                                                     \
    JSON_FIELD(name, JSON_AS_CUSTOM, JSON_REQUIRED, struct api_capacity, member,                   \
               .parse = api_parse_integer, .print = print_capacity, .max = INT32_MAX)

/* All four are required: 0 is written, too. */
static void print_capacity(struct json_writer *w, const struct json_field *f, const void *from)
{
    json_member_i64(w, str_of(f->name), *(const int64_t *)from);
}

static const struct json_field capacity_fields[] = {
    CAPACITY("bufferMax", buffer_max),
    CAPACITY("bufferMin", buffer_min),
    CAPACITY("poolMax", pool_max),
    CAPACITY("poolMin", pool_min),
};
static const struct json_table capacity_table =
    JSON_TABLE(struct api_capacity, capacity_fields, JSON_SNAKE);

#define CAPACITY_SPEC                                                                              \
    JSON_FIELD("capacitySpec", JSON_AS_OBJECT, JSON_REQUIRED, struct api_pool, capacity,           \
               .table = &capacity_table)
static const struct json_field pool_fields[] = {
    JSON_FIELD("name", JSON_AS_STR, JSON_REQUIRED, struct api_pool, name),
    JSON_FIELD("template", JSON_AS_RAW, JSON_REQUIRED, struct api_pool, template),
    CAPACITY_SPEC,
};
static const struct json_field pool_update_fields[] = {CAPACITY_SPEC};
static const struct json_table pool_table = JSON_TABLE(struct api_pool, pool_fields, JSON_SNAKE);
static const struct json_table pool_update_table =
    JSON_TABLE(struct api_pool, pool_update_fields, JSON_SNAKE);

int api_pool_parse(struct arena *a, struct str type, struct str body, bool create,
                   struct api_pool *ret, struct api_fail *f)
{
    struct api_pool b = {0};
    int r = api_body_bind(a, type, body, create ? &pool_table : &pool_update_table, &b, f);

    if (r < 0)
        return r;
    if (create && !api_is_name(b.name, API_POOL_NAME_MAX))
        return api_fail_invalid(f, "name: expected 1 to %d lower-case letters, digits or inner '-'",
                                API_POOL_NAME_MAX);
    if (create && b.template->type != JSON_OBJECT)
        return api_fail_invalid(f, "template: expected an object, got %s",
                                json_type_name(b.template));
    *ret = b;
    return 0;
}

/* --- writing --- */

static int write_bound(struct buf *out, const struct json_table *t, const void *from)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_bind_write(&w, t, from);
    return json_write_end(&w);
}

int api_renew_write(struct buf *out, int64_t expires_us)
{
    struct renew_body b = {expires_us};

    return write_bound(out, &renew_table, &b);
}

int api_snapshot_create_write(struct buf *out, const struct api_snapshot_create *snapshot)
{
    return write_bound(out, &snapshot_table, snapshot);
}

static void write_pairs(struct json_writer *w, const struct json_pair *pairs, size_t count)
{
    json_write_object(w);
    for (size_t i = 0; i < count; i++) {
        json_write_key(w, pairs[i].key);
        if (pairs[i].value.p)
            json_write_string(w, pairs[i].value);
        else
            json_write_null(w);
    }
    json_write_object_end(w);
}

int api_fork_write(struct arena *a, struct buf *out, const struct api_fork *fork)
{
    struct fork_body b = {.out = *fork, .count = fork->count};

    if (fork->env_count) {
        b.env = api_pairs_tree(a, fork->env, fork->env_count);
        if (!b.env)
            return -ENOMEM;
    }
    return write_bound(out, &fork_table, &b);
}

int api_rollback_write(struct buf *out, struct str snapshot)
{
    struct rollback_body b = {snapshot};

    return write_bound(out, &rollback_table, &b);
}

int api_pool_write(struct buf *out, const struct api_pool *pool, bool create)
{
    return write_bound(out, create ? &pool_table : &pool_update_table, pool);
}

int api_patch_write(struct buf *out, const struct json_pair *pairs, size_t count)
{
    struct json_writer w;

    json_write_begin(&w, out);
    write_pairs(&w, pairs, count);
    return json_write_end(&w);
}
