/* tools_more.c - tools for snapshots, forks, and output that was cut. */
#include <errno.h>

#include "mcp/tools.h"

static int write_all(struct osb_answer *answer, int r, struct json_writer *w)
{
    if (r == 0)
        r = tools_write_answer(w, answer, "");
    osb_answer_free(answer);
    return r;
}

/* --- snapshots --- */

#define FIELD_MEMORY                                                                               \
    {                                                                                              \
        "memory", FIELD_BOOL, false, "With its processes, as they run: on gVisor only", "false"    \
    }

static const struct field snapshot_fields[] = {
    FIELD_SANDBOX_ID,
    {"name", FIELD_STRING, false, "For people"},
    FIELD_MEMORY,
};

static int run_snapshot_create(struct call *c, struct json_writer *w)
{
    struct osb_snapshot snapshot = {OSB_SNAPSHOT, .name = call_text(c, "name"),
                                    .memory = call_bool(c, "memory")};
    struct osb_answer *answer = NULL;
    int r =
        osb_snapshot_create_with(c->mcp->client, call_text(c, "sandbox_id"), &snapshot, &answer);

    return write_all(answer, r, w);
}

static const struct field snapshot_id_fields[] = {
    {"snapshot_id", FIELD_STRING, true, "Id of the snapshot"},
};

static int run_snapshot_get(struct call *c, struct json_writer *w)
{
    struct osb_answer *answer = NULL;
    int r = osb_snapshot_get(c->mcp->client, call_text(c, "snapshot_id"), &answer);

    return write_all(answer, r, w);
}

static int run_snapshot_delete(struct call *c, struct json_writer *w)
{
    int r = osb_snapshot_delete(c->mcp->client, call_text(c, "snapshot_id"));

    if (r == 0)
        tools_write_status(w, "deleted");
    return r;
}

static const struct field snapshots_fields[] = {
    {"sandbox_id",      FIELD_STRING, false, "Only those of this sandbox"},
    { .name = "page",
     .type = FIELD_INTEGER,
     .about = "From 1",
     .otherwise = "1",
     .min = 1,
     .max = 1000000},
};

static int run_snapshot_list(struct call *c, struct json_writer *w)
{
    const struct osb_filter filter = {
        OSB_FILTER,
        .sandbox_id = call_text(c, "sandbox_id"),
        .page = (uint32_t)call_int(c, "page"),
    };
    struct osb_answer *answer = NULL;
    int r = osb_snapshot_list(c->mcp->client, &filter, &answer);

    return write_all(answer, r, w);
}

/* --- forks --- */

static const struct field fork_fields[] = {
    FIELD_SANDBOX_ID,
    {"count", FIELD_INTEGER, false,    "How many", "1", 1, 100},
    {.name = "timeout_seconds",
      .type = FIELD_INTEGER,
      .about = "Of each",
      .min = 1,
      .max = 315360000                               },
    FIELD_MEMORY,
};

/* Sandboxes that came to be are ours, as if we had created them. */
static int adopt(struct call *c, const struct osb_answer *answer)
{
    size_t n = osb_answer_count(answer, "items");

    for (size_t i = 0; i < n; i++) {
        struct osb_sandbox *handle = NULL;
        char *path = arena_printf(&c->message->arena, "items[%zu].id", i);
        const char *id = path ? osb_answer_text(answer, path) : NULL;
        int r = id ? osb_sandbox_connect(c->mcp->client, id, &handle) : -EBADMSG;

        if (r == 0)
            r = mcp_box_add(c->mcp, handle, true, &c->why);
        if (r < 0)
            return r;
    }
    return 0;
}

/* A request of this server's own below a sandbox. */
static int post(struct call *c, const char *verb, const struct buf *body, struct osb_answer **ret)
{
    AUTO_BUF(path, RPC_MESSAGE_BYTES_MAX);
    const char *id = call_text(c, "sandbox_id");
    struct osb_request request = {OSB_REQUEST, .method = "POST"};
    int r;

    if (strpbrk(id, "/?#%"))
        return err_set(&c->why, EINVAL, "sandbox_id: expected the id of a sandbox");
    r = buf_addf(&path, "/sandboxes/%s/%s", id, verb);
    if (r < 0)
        return r;
    request.path = path.p;
    request.body = body->p;
    request.body_bytes = body->n;
    return osb_request(c->mcp->client, &request, ret);
}

static int run_fork(struct call *c, struct json_writer *w)
{
    AUTO_BUF(body, 256);
    struct osb_answer *answer = NULL;
    int r;

    (void)buf_addf(&body, "{\"count\":%lld", (long long)call_int(c, "count"));
    if (call_arg(c, "timeout_seconds"))
        (void)buf_addf(&body, ",\"timeout\":%lld", (long long)call_int(c, "timeout_seconds"));
    if (call_bool(c, "memory"))
        (void)buf_add(&body, STR(",\"memory\":true"));
    (void)buf_add_char(&body, '}');
    c->shielded = true; /* the answer has the ids of what was made */
    r = post(c, "fork", &body, &answer);
    c->shielded = false;
    if (r == 0)
        r = adopt(c, answer);
    return write_all(answer, r, w);
}

static const struct field rollback_fields[] = {
    FIELD_SANDBOX_ID,
    {"snapshot_id", FIELD_STRING, true, "Snapshot of this sandbox"},
};

static int run_rollback(struct call *c, struct json_writer *w)
{
    AUTO_BUF(body, RPC_MESSAGE_BYTES_MAX);
    struct json_writer b;
    int r;

    json_write_begin(&b, &body);
    json_write_object(&b);
    json_member_string(&b, STR("snapshotId"), call_str(c, "snapshot_id"));
    json_write_object_end(&b);
    r = json_write_end(&b);
    if (r == 0)
        r = post(c, "rollback", &body, NULL);
    if (r == 0)
        tools_write_status(w, "rolling back");
    return r;
}

/* --- output that was cut --- */

static const struct field output_fields[] = {
    {"uri",             FIELD_STRING, true, "Of the link in an answer: " OUTPUT_URI "..."},
    { "offset", FIELD_INTEGER, false,                 "First byte",                                     "0", 0, INT64_MAX},
    { "length", FIELD_INTEGER, false,         "Bytes, at most",                              "65536", 1, OUTPUT_BYTES_MAX},
};

static int run_output_read(struct call *c, struct json_writer *w)
{
    uint64_t offset = (uint64_t)call_int(c, "offset");
    size_t length = min_size((size_t)call_int(c, "length"), c->mcp->options->output_bytes);
    struct str all, part;

    if (!outputs_find(&c->mcp->outputs, call_str(c, "uri"), &all))
        return err_set(&c->why, ENOENT,
                       "there is no such output: it never was, or it is too old to be kept");
    part = outputs_part(all, offset, length);
    json_write_object(w);
    json_member_string(w, STR("content"), part);
    json_member_u64(w, STR("next_offset"), (uint64_t)(part.p - all.p) + part.n);
    json_member_u64(w, STR("total_bytes"), all.n);
    json_write_object_end(w);
    return 0;
}

static const struct tool tools[] = {
    {"snapshot_create",  "Keep the files of a sandbox as they are now.",                        0,             SCHEMA(snapshot_fields),
     run_snapshot_create                                                                                                                                    },
    {"snapshot_get",     "State of a snapshot.",                                                TOOL_READS,    SCHEMA(snapshot_id_fields),
     run_snapshot_get                                                                                                                                       },
    {"snapshot_list",    "List snapshots.",                                                     TOOL_READS,    SCHEMA(snapshots_fields),   run_snapshot_list},
    {"snapshot_delete",  "Delete a snapshot.",                                                  TOOL_DESTROYS, SCHEMA(snapshot_id_fields),
     run_snapshot_delete                                                                                                                                    },
    {"sandbox_fork",     "Make copies of a sandbox that runs.",                                 0,             SCHEMA(fork_fields),        run_fork         },
    {"sandbox_rollback", "Bring a sandbox back to a snapshot of it; what it runs starts anew.",
     TOOL_DESTROYS,                                                                                            SCHEMA(rollback_fields),    run_rollback     },
    {"output_read",      "Read a part of output that was too long for an answer.",              TOOL_READS,
     SCHEMA(output_fields),                                                                                                                run_output_read  },
};
const struct tool_group more_tools = {tools, ARRAY_LEN(tools)};
