/* volume.c - named volumes of a server. */
#include "sdk.h"

struct osb_volume_info {
    struct view v;
};

size_t osb_volume_count(const struct osb_answer *answer)
{
    return answer->view_count;
}

const struct osb_volume_info *osb_volume_at(const struct osb_answer *answer, size_t index)
{
    return (const struct osb_volume_info *)view_at(answer, index);
}

const char *osb_volume_name(const struct osb_volume_info *volume)
{
    return view_text(&volume->v, "name");
}

int64_t osb_volume_created_us(const struct osb_volume_info *volume)
{
    struct err e;
    int64_t us;

    return time_parse(str_of(view_text(&volume->v, "createdAt")), &us, &e) < 0 ? 0 : us;
}

int64_t osb_volume_size(const struct osb_volume_info *volume)
{
    return view_int(&volume->v, "sizeBytes", -1);
}

int64_t osb_volume_used(const struct osb_volume_info *volume)
{
    return view_int(&volume->v, "usedBytes", -1);
}

size_t osb_volume_user_count(const struct osb_volume_info *volume)
{
    return json_count(json_get(volume->v.json, STR("usedBy")));
}

const char *osb_volume_user(const struct osb_volume_info *volume, size_t index)
{
    return view_element(&volume->v, "usedBy", index);
}

const char *osb_volume_json(const struct osb_volume_info *volume)
{
    return view_json(&volume->v);
}

/* --- requests --- */

static void target_volume(struct target *t, const char *name)
{
    target_init(t, "/volumes/");
    target_segment(t, name);
}

int osb_volume_create(struct osb_client *client, const char *name, const char *size,
                      struct osb_answer **ret_answer)
{
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct json_writer w;
    struct target t;
    struct simple s = {&client->server, HTTP_POST, &t, &body, 0};

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_string(&w, STR("name"), str_or_empty(name));
    if (size)
        json_member_string(&w, STR("size"), str_of(size));
    json_write_object_end(&w);
    s.body_error = json_write_end(&w);
    target_init(&t, "/volumes");
    return view_call(client, &s, ret_answer);
}

int osb_volume_get(struct osb_client *client, const char *name, struct osb_answer **ret_answer)
{
    struct target t;
    struct simple s = {&client->server, HTTP_GET, &t, NULL, 0};

    target_volume(&t, name);
    return view_call(client, &s, ret_answer);
}

int osb_volume_list(struct osb_client *client, const struct osb_filter *filter,
                    struct osb_answer **ret_answer)
{
    OPTIONS_COPY(struct osb_filter, f, filter);
    struct target t;
    struct simple s = {&client->server, HTTP_GET, &t, NULL, 0};

    target_init(&t, "/volumes");
    target_page(&t, &f);
    return view_call(client, &s, ret_answer);
}

int osb_volume_delete(struct osb_client *client, const char *name)
{
    struct target t;
    struct simple s = {&client->server, HTTP_DELETE, &t, NULL, 0};

    target_volume(&t, name);
    return simple_call(client, &s, NULL);
}
