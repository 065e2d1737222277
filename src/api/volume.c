#include "api/volume.h"

#include <stdio.h>

#include "api/body.h"
#include "api/metadata.h"
#include "api/named_volume.h"

enum {
    PATH_BYTES_MAX = 4095,
    NAME_BYTES_MAX = 63,
    CLAIM_BYTES_MAX = API_CLAIM_BYTES_MAX,
    OPTIONS_MAX = 64,
};

struct ossfs_body {
    struct str bucket, endpoint, version, key_id, key_secret;
    struct str *options;
    size_t options_count;
};

struct api_volume_body {
    struct api_volume v;
    bool has_host, has_pvc, has_ossfs, create_given;
    struct str storage_class, storage;
    struct str *access_modes;
    size_t access_modes_count;
    struct ossfs_body ossfs;
};

/* --- what the binder reads --- */

static const struct json_field string_element = {.as = JSON_AS_STR};

static const struct json_field host_fields[] = {
    JSON_FIELD("path", JSON_AS_STR, JSON_REQUIRED, struct api_volume_body, v.host_path),
};
static const struct json_table host_table = JSON_TABLE(struct api_volume_body, host_fields, 0);

static const struct json_field pvc_fields[] = {
    JSON_FIELD("claimName", JSON_AS_STR, JSON_REQUIRED, struct api_volume_body, v.claim_name),
    JSON_FIELD("createIfNotExists", JSON_AS_CUSTOM, JSON_NULLABLE, struct api_volume_body,
               v.create_if_missing, API_LENIENT_BOOL,
               .seen_at = JSON_SEEN(struct api_volume_body, create_given)),
    JSON_FIELD("deleteOnSandboxTermination", JSON_AS_CUSTOM, JSON_NULLABLE, struct api_volume_body,
               v.delete_with_sandbox, API_LENIENT_BOOL),
    JSON_FIELD("storageClass", JSON_AS_STR, JSON_NULLABLE, struct api_volume_body, storage_class),
    JSON_FIELD("storage", JSON_AS_STR, JSON_NULLABLE, struct api_volume_body, storage),
    JSON_LIST("accessModes", JSON_AS_ARRAY, JSON_NULLABLE, struct api_volume_body, access_modes,
              .max = OPTIONS_MAX, .element = &string_element),
};
static const struct json_table pvc_table =
    JSON_TABLE(struct api_volume_body, pvc_fields, JSON_SNAKE);

static const struct json_field ossfs_fields[] = {
    JSON_FIELD("bucket", JSON_AS_STR, JSON_REQUIRED, struct ossfs_body, bucket),
    JSON_FIELD("endpoint", JSON_AS_STR, JSON_REQUIRED, struct ossfs_body, endpoint),
    JSON_FIELD("version", JSON_AS_STR, JSON_NULLABLE, struct ossfs_body, version),
    JSON_LIST("options", JSON_AS_ARRAY, JSON_NULLABLE, struct ossfs_body, options,
              .max = OPTIONS_MAX, .element = &string_element),
    JSON_FIELD("accessKeyId", JSON_AS_STR, JSON_NULLABLE, struct ossfs_body, key_id),
    JSON_FIELD("accessKeySecret", JSON_AS_STR, JSON_NULLABLE, struct ossfs_body, key_secret),
};
static const struct json_table ossfs_table =
    JSON_TABLE(struct ossfs_body, ossfs_fields, JSON_SNAKE);

/* The tables of host and pvc fill the volume itself, hence the offset 0. */
static const struct json_field volume_fields[] = {
    JSON_FIELD("name", JSON_AS_STR, JSON_REQUIRED, struct api_volume_body, v.name),
    JSON_FIELD("mountPath", JSON_AS_STR, JSON_REQUIRED, struct api_volume_body, v.mount_path),
    JSON_FIELD("readOnly", JSON_AS_CUSTOM, JSON_NULLABLE, struct api_volume_body, v.read_only,
               API_LENIENT_BOOL),
    JSON_FIELD("subPath", JSON_AS_STR, JSON_NULLABLE, struct api_volume_body, v.sub_path),
    {"host", JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &host_table,
                                                                                 .seen_at = JSON_SEEN(struct api_volume_body, has_host)},
    {"pvc",  JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &pvc_table,
                                                                                 .seen_at = JSON_SEEN(struct api_volume_body, has_pvc) },
    JSON_FIELD("ossfs", JSON_AS_OBJECT, JSON_NULLABLE, struct api_volume_body, ossfs,
               .table = &ossfs_table, .seen_at = JSON_SEEN(struct api_volume_body, has_ossfs)),
};
static const struct json_table volume_table =
    JSON_TABLE(struct api_volume_body, volume_fields, JSON_SNAKE);

const struct json_field api_volume_element = {.as = JSON_AS_OBJECT, .table = &volume_table};

/* --- paths --- */

/* Whether one of the components of `path` is `component`. */
static bool path_has(struct str path, struct str component)
{
    struct str piece;

    while (str_cut(&path, '/', &piece))
        if (str_eq(piece, component))
            return true;
    return false;
}

static bool path_is_clean(struct str path)
{
    if (str_eq(path, STR("/")))
        return true;
    return str_starts(path, STR("/")) && path.n <= PATH_BYTES_MAX &&
           !path_has(str_skip(path, 1), STR("")) && !path_has(path, STR(".")) &&
           !path_has(path, STR(".."));
}

static bool path_can_be_mounted_at(struct str path)
{
    return str_starts(path, STR("/")) && path.n > 1 && path.n <= PATH_BYTES_MAX &&
           !path_has(path, STR(".."));
}

static bool path_is_below(struct str path)
{
    return !str_starts(path, STR("/")) && path.n <= PATH_BYTES_MAX && !path_has(path, STR(".."));
}

/* --- the shape; `at` is where in the request: "volumes[2]" --- */

/* Digits, optionally with a fraction and a unit of powers of 1024. */
static bool is_quantity(struct str s)
{
    static const char *const units[] = {"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    struct str whole;
    size_t dot;

    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (str_ends(s, str_of(units[i]))) {
            s.n -= 2;
            break;
        }
    dot = str_find(s, '.');
    whole = str_make(s.p, dot);
    if (whole.n == 0 || (dot < s.n && dot + 1 == s.n))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (i != dot && !ascii_is_digit(s.p[i]))
            return false;
    return true;
}

static int check_pvc(const struct api_volume_body *b, const char *at, struct api_fail *f)
{
    if (!api_is_name(b->v.claim_name, CLAIM_BYTES_MAX))
        return api_fail_set(f, 400, "VOLUME::INVALID_PVC_NAME",
                            "%s.pvc.claimName: expected 1 to %d lower-case letters, digits or "
                            "inner '-'",
                            at, CLAIM_BYTES_MAX);
    if (b->storage.p && !is_quantity(b->storage))
        return api_fail_invalid(f, "%s.pvc.storage: expected a quantity like 10Gi", at);
    return 0;
}

/* Characters with a special meaning in a shell. */
static bool has_shell_characters(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (strchr(";&|`$()<>\r\n", s.p[i]))
            return true;
    return false;
}

static int check_ossfs(const struct api_volume_body *b, const char *at, struct api_fail *f)
{
    const struct ossfs_body *o = &b->ossfs;

    if (o->bucket.n < 3 || !api_is_name(o->bucket, NAME_BYTES_MAX))
        return api_fail_set(f, 400, "VOLUME::INVALID_OSSFS_BUCKET",
                            "%s.ossfs.bucket: expected 3 to %d lower-case letters, digits or inner "
                            "'-'",
                            at, NAME_BYTES_MAX);
    if (o->endpoint.n == 0)
        return api_fail_set(f, 400, "VOLUME::INVALID_OSSFS_ENDPOINT",
                            "%s.ossfs.endpoint: expected a host name, got nothing", at);
    if (has_shell_characters(o->endpoint) || has_shell_characters(b->v.sub_path))
        return api_fail_invalid(f, "%s: ossfs.endpoint and subPath must not hold any of ;&|`$()<>",
                                at);
    if (o->version.p && !str_eq(o->version, STR("1.0")) && !str_eq(o->version, STR("2.0")))
        return api_fail_set(f, 400, "VOLUME::INVALID_OSSFS_VERSION",
                            "%s.ossfs.version: expected 1.0 or 2.0", at);
    if (o->key_id.n == 0 || o->key_secret.n == 0)
        return api_fail_set(f, 400, "VOLUME::INVALID_OSSFS_CREDENTIALS",
                            "%s.ossfs: both accessKeyId and accessKeySecret are required", at);
    return 0;
}

static int check_backend(const struct api_volume_body *b, const char *at, struct api_fail *f)
{
    if (b->has_host + b->has_pvc + b->has_ossfs != 1)
        return api_fail_set(f, 400, "VOLUME::INVALID_BACKEND",
                            "%s: expected exactly one of host, pvc, ossfs, got %d", at,
                            b->has_host + b->has_pvc + b->has_ossfs);
    if (b->has_pvc)
        return check_pvc(b, at, f);
    return b->has_ossfs ? check_ossfs(b, at, f) : 0;
}

static int check_shape(const struct api_volume_body *b, const char *at, struct api_fail *f)
{
    if (!api_is_name(b->v.name, NAME_BYTES_MAX))
        return api_fail_set(f, 400, "VOLUME::INVALID_NAME",
                            "%s.name: expected 1 to %d lower-case letters, digits or inner '-'", at,
                            NAME_BYTES_MAX);
    if (!path_can_be_mounted_at(b->v.mount_path))
        return api_fail_set(f, 400, "VOLUME::INVALID_MOUNT_PATH",
                            "%s.mountPath: expected an absolute path below /, without '..'", at);
    return check_backend(b, at, f);
}

/* --- the rules after the shape --- */

static int check_host(const struct api_volume_body *b, const char *at, struct api_fail *f)
{
    if (path_is_clean(b->v.host_path))
        return 0;
    return api_fail_set(f, 400, "VOLUME::INVALID_HOST_PATH",
                        "%s.host.path: expected an absolute path like /data/in, without '//', '.' "
                        "or '..', and no '/' at its end",
                        at);
}

static int check_ossfs_options(const struct ossfs_body *o, const char *at, struct api_fail *f)
{
    for (size_t i = 0; i < o->options_count; i++) {
        struct str option = str_trim(o->options[i]);

        if (option.n == 0 || option.p[0] == '-')
            return api_fail_set(f, 400, "VOLUME::INVALID_OSSFS_OPTION",
                                "%s.ossfs.options[%zu]: expected an option without leading '-', "
                                "like allow_other",
                                at, i);
        if (has_shell_characters(option))
            return api_fail_invalid(f, "%s.ossfs.options[%zu]: must not hold any of ;&|`$()<>", at,
                                    i);
    }
    return 0;
}

static int check_rules(const struct api_volume_body *b, const char *at, struct api_fail *f)
{
    if (!path_is_below(b->v.sub_path))
        return api_fail_set(f, 400, "VOLUME::INVALID_SUB_PATH",
                            "%s.subPath: expected a relative path without '..'", at);
    if (b->has_host)
        return check_host(b, at, f);
    return b->has_ossfs ? check_ossfs_options(&b->ossfs, at, f) : 0;
}

static int check_unique(const struct api_volume *v, const struct api_volume *before, const char *at,
                        struct api_fail *f)
{
    if (str_eq(v->name, before->name))
        return api_fail_set(f, 400, "VOLUME::DUPLICATE_NAME",
                            "%s.name: an earlier volume is called '%s', too", at,
                            api_show(v->name).text);
    if (str_eq(v->mount_path, before->mount_path))
        return api_fail_set(f, 400, "VOLUME::INVALID_MOUNT_PATH",
                            "%s.mountPath: an earlier volume is mounted there, too", at);
    return 0;
}

/* --- all of them --- */

struct volume_at {
    char text[sizeof("volumes[18446744073709551615]")];
};

static struct volume_at volume_at(size_t i)
{
    struct volume_at at;

    snprintf(at.text, sizeof(at.text), "volumes[%zu]", i);
    return at;
}

int api_volumes_check_shape(const struct api_volume_body *bodies, size_t count, struct api_fail *f)
{
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++)
        r = check_shape(&bodies[i], volume_at(i).text, f);
    return r;
}

/* The texts as one, each with a newline after it. */
static int join_lines(struct arena *a, const struct str *lines, size_t count, struct str *ret)
{
    size_t bytes = 1, at = 0;
    char *text;

    for (size_t i = 0; i < count; i++)
        bytes += lines[i].n + 1;
    text = arena_zalloc(a, bytes);
    if (!text)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct str option = str_trim(lines[i]);

        memcpy(text + at, option.p, option.n);
        at += option.n;
        text[at++] = '\n';
    }
    *ret = str_make(text, at);
    return 0;
}

static int set_ossfs(struct arena *a, const struct ossfs_body *o, struct api_volume *v)
{
    v->bucket = o->bucket;
    v->endpoint = o->endpoint;
    v->key_id = o->key_id;
    v->key_secret = o->key_secret;
    return join_lines(a, o->options, o->options_count, &v->options);
}

static struct api_volume volume_of(const struct api_volume_body *b)
{
    struct api_volume v = b->v;

    v.kind = b->has_host ? API_VOLUME_HOST : b->has_pvc ? API_VOLUME_PVC : API_VOLUME_OSSFS;
    v.create_if_missing |= !b->create_given;
    if (b->has_pvc && b->storage.p && api_quantity_parse(b->storage, &v.size_bytes) < 0)
        v.size_bytes = 0; /* a hint */
    if (b->has_pvc) {
        v.size_text = str_trim(b->storage);
        v.storage_class = str_trim(b->storage_class);
    }
    while (v.mount_path.n > 1 && str_ends(v.mount_path, STR("/")))
        v.mount_path.n--;
    return v;
}

int api_volumes_check(struct arena *a, const struct api_volume_body *bodies, size_t count,
                      struct api_volume **ret_volumes, struct api_fail *f)
{
    struct api_volume *volumes = arena_new_array(a, struct api_volume, count);
    int r = 0;

    if (!volumes)
        return api_fail_memory(f);
    for (size_t i = 0; i < count && r == 0; i++) {
        struct volume_at at = volume_at(i);

        volumes[i] = volume_of(&bodies[i]);
        for (size_t j = 0; j < i && r == 0; j++)
            r = check_unique(&volumes[i], &volumes[j], at.text, f);
        if (r == 0)
            r = check_rules(&bodies[i], at.text, f);
        if (r == 0 && bodies[i].has_ossfs && set_ossfs(a, &bodies[i].ossfs, &volumes[i]) < 0)
            r = api_fail_memory(f);
        if (r == 0 && bodies[i].has_pvc &&
            join_lines(a, bodies[i].access_modes, bodies[i].access_modes_count,
                       &volumes[i].access_modes) < 0)
            r = api_fail_memory(f);
    }
    if (r == 0)
        *ret_volumes = volumes;
    return r;
}

struct api_volume_body *api_volume_bodies(struct arena *a, const struct api_volume *volumes,
                                          size_t count)
{
    struct api_volume_body *bodies = arena_new_array(a, struct api_volume_body, count);

    for (size_t i = 0; bodies && i < count; i++) {
        bodies[i].v = volumes[i];
        bodies[i].has_host = volumes[i].kind == API_VOLUME_HOST;
        bodies[i].has_pvc = volumes[i].kind == API_VOLUME_PVC;
        bodies[i].create_given = bodies[i].has_pvc;
        if (volumes[i].size_bytes) {
            char text[24];

            (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)volumes[i].size_bytes);
            bodies[i].storage = str_of(arena_strdup(a, str_of(text)));
            if (!bodies[i].storage.p)
                return NULL;
        }
    }
    return bodies;
}
