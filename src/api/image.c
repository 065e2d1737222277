#include "api/image.h"

#include <errno.h>

#include "api/body.h"

enum { TEXT_BYTES_MAX = 4096 };

static const struct json_field auth_fields[] = {
    JSON_FIELD("username", JSON_AS_STR, JSON_REQUIRED, struct api_image_pull, auth_user),
    JSON_FIELD("password", JSON_AS_STR, JSON_REQUIRED, struct api_image_pull, auth_password),
};
static const struct json_table auth_table = JSON_TABLE(struct api_image_pull, auth_fields, 0);

static const struct json_field image_fields[] = {
    JSON_FIELD("uri", JSON_AS_STR, JSON_REQUIRED, struct api_image_pull, image, .min = 1,
               .max = TEXT_BYTES_MAX),
    {"auth", JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &auth_table},
};
static const struct json_table image_table = JSON_TABLE(struct api_image_pull, image_fields, 0);

static const struct json_field pull_fields[] = {
    {"image", JSON_AS_OBJECT, JSON_REQUIRED, 0, .table = &image_table},
    JSON_FIELD("platform", JSON_AS_STR, JSON_NULLABLE, struct api_image_pull, platform,
               .max = TEXT_BYTES_MAX),
    JSON_FIELD("policy", JSON_AS_ENUM, JSON_NULLABLE, struct api_image_pull, policy,
               .names = api_pull_names),
};
static const struct json_table pull_table = JSON_TABLE(struct api_image_pull, pull_fields, 0);

int api_image_pull_parse(struct arena *a, struct str type, struct str body,
                         struct api_image_pull *ret, struct api_fail *f)
{
    *ret = (struct api_image_pull){0};
    return api_body_bind(a, type, body, &pull_table, ret, f);
}

int api_image_pull_write(struct buf *out, const struct api_image_pull *pull)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_bind_write(&w, &pull_table, pull);
    return json_write_end(&w);
}

struct prune {
    uint64_t bytes;
};

static const struct json_field prune_fields[] = {
    JSON_FIELD("maxBytes", JSON_AS_U64, JSON_NULLABLE, struct prune, bytes),
};
static const struct json_table prune_table = JSON_TABLE(struct prune, prune_fields, 0);

int api_image_prune_parse(struct arena *a, struct str type, struct str body, uint64_t *ret_bytes,
                          struct api_fail *f)
{
    struct prune p = {UINT64_MAX};
    int r = body.n ? api_body_bind(a, type, body, &prune_table, &p, f) : 0;

    *ret_bytes = p.bytes;
    return r;
}

int api_image_prune_write(struct buf *out, uint64_t bytes_max)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    if (bytes_max != UINT64_MAX)
        json_member_u64(&w, STR("maxBytes"), bytes_max);
    json_write_object_end(&w);
    return json_write_end(&w);
}

static void write_list(struct json_writer *w, const char *key, const struct str *items,
                       size_t count)
{
    if (!count)
        return;
    json_write_key(w, str_of(key));
    json_write_array(w);
    for (size_t i = 0; i < count; i++)
        json_write_string(w, items[i]);
    json_write_array_end(w);
}

static void write_text(struct json_writer *w, const char *key, struct str text)
{
    if (text.n)
        json_member_string(w, str_of(key), text);
}

void api_image_write(struct json_writer *w, const struct api_image *image)
{
    json_write_object(w);
    json_member_string(w, STR("id"), image->id);
    write_list(w, "names", image->names, image->names_count);
    json_member_u64(w, STR("size"), image->bytes);
    json_member_u64(w, STR("layers"), image->layers);
    json_member_time(w, STR("createdAt"), image->created_us);
    json_member_time(w, STR("lastUsedAt"), image->last_used_us);
    json_write_key(w, STR("platform"));
    json_write_object(w);
    json_member_string(w, STR("os"), image->os);
    json_member_string(w, STR("arch"), image->arch);
    write_text(w, "variant", image->variant);
    json_write_object_end(w);
    write_list(w, "entrypoint", image->entrypoint, image->entrypoint_count);
    write_list(w, "cmd", image->cmd, image->cmd_count);
    write_list(w, "env", image->env, image->env_count);
    write_text(w, "user", image->user);
    write_text(w, "workdir", image->workdir);
    write_list(w, "exposedPorts", image->ports, image->ports_count);
    json_member_bool(w, STR("inUse"), image->users > 0);
    json_write_object_end(w);
}

static const struct json_name event_names[] = {
    {"progress", API_PULL_PROGRESS},
    {"done",     API_PULL_DONE    },
    {"error",    API_PULL_ERROR   },
    {NULL,       0                },
};

/* A type that a later server may send is no mistake. */
static int parse_type(struct arena *a UNUSED, const struct json *v, const struct json_field *f,
                      void *ret, struct err *e)
{
    struct str text;

    if (json_to_str(v, &text) < 0)
        return err_set(e, EBADMSG, "expected a string, got %s", json_type_name(v));
    for (const struct json_name *n = f->arg; n->name; n++)
        if (str_eq(text, str_of(n->name)))
            *(int *)ret = n->value;
    return 0;
}

static const struct json_field event_fields[] = {
    JSON_FIELD("type", JSON_AS_CUSTOM, JSON_REQUIRED, struct api_pull_event, type,
               .parse = parse_type, .arg = event_names),
    JSON_FIELD("message", JSON_AS_STR, JSON_NULLABLE, struct api_pull_event, message),
    JSON_FIELD("code", JSON_AS_STR, JSON_NULLABLE, struct api_pull_event, code),
    JSON_FIELD("bytesDone", JSON_AS_U64, JSON_NULLABLE, struct api_pull_event, bytes_done),
    JSON_FIELD("bytesTotal", JSON_AS_U64, JSON_NULLABLE, struct api_pull_event, bytes_total),
    JSON_FIELD("image", JSON_AS_RAW, JSON_NULLABLE, struct api_pull_event, image),
};
static const struct json_table event_table = JSON_TABLE(struct api_pull_event, event_fields, 0);

int api_pull_event_read(struct arena *a, const struct json *v, struct api_pull_event *ret,
                        struct err *e)
{
    *ret = (struct api_pull_event){0};
    return json_bind(a, v, &event_table, ret, e);
}
