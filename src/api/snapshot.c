#include "api/snapshot.h"

#include <errno.h>

static const char *const state_names[SNAPSHOT_STATE_COUNT] = {
    [SNAPSHOT_CREATING] = "Creating",
    [SNAPSHOT_READY] = "Ready",
    [SNAPSHOT_FAILED] = "Failed",
    [SNAPSHOT_DELETING] = "Deleting",
};

const char *snapshot_state_name(enum snapshot_state state)
{
    return state_names[state];
}

int snapshot_state_parse(struct str name, enum snapshot_state *ret_state)
{
    for (size_t i = 0; i < SNAPSHOT_STATE_COUNT; i++)
        if (str_eq(name, str_of(state_names[i]))) {
            *ret_state = (enum snapshot_state)i;
            return 0;
        }
    return -EINVAL;
}

static void write_status(struct json_writer *w, const struct api_snapshot *s)
{
    json_write_key(w, STR("status"));
    json_write_object(w);
    json_member_string(w, STR("state"), str_of(state_names[s->status.state]));
    json_member_string(w, STR("reason"), s->status.reason);
    json_member_string(w, STR("message"), s->status.message);
    json_member_time(w, STR("lastTransitionAt"), s->status.since_us);
    json_write_object_end(w);
}

static void write_snapshot(struct json_writer *w, const struct api_snapshot *s)
{
    json_write_object(w);
    json_member_string(w, STR("id"), s->id);
    json_member_string(w, STR("sandboxId"), s->sandbox_id);
    if (s->name.n)
        json_member_string(w, STR("name"), s->name);
    write_status(w, s);
    json_member_time(w, STR("createdAt"), s->created_us);
    if (s->status.state == SNAPSHOT_READY) {
        json_member_u64(w, STR("sizeBytes"), s->size_bytes);
        json_member_u64(w, STR("frozenMs"), s->frozen_ms);
    }
    json_write_object_end(w);
}

int api_snapshot_write(struct buf *out, const struct api_snapshot *s)
{
    struct json_writer w;

    json_write_begin(&w, out);
    write_snapshot(&w, s);
    return json_write_end(&w);
}

void api_page_add_snapshot(struct api_page *p, const struct api_snapshot *s)
{
    write_snapshot(&p->w, s);
}
