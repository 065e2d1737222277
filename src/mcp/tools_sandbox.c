/* tools_sandbox.c - tools for the life of sandboxes. */
#include <errno.h>

#include "mcp/tools.h"

enum { ENDPOINT_PORT_MAX = 65535 };

/* {"sandbox_id", "info"} */
static int write_info(struct call *c, const char *id, struct json_writer *w)
{
    struct osb_answer *answer = NULL;
    int r = osb_sandbox_get(c->mcp->client, id, &answer);

    if (r < 0)
        return r;
    json_write_object(w);
    json_member_string(w, STR("sandbox_id"), str_of(id));
    json_write_key(w, STR("info"));
    r = tools_write_answer(w, answer, "");
    json_write_object_end(w);
    osb_answer_free(answer);
    return r;
}

static uint32_t to_ms(double seconds)
{
    return (uint32_t)(seconds * 1000);
}

/* --- sandbox_create --- */

static const struct field rule_fields[] = {
    {"action", FIELD_STRING, true, "allow or deny"                                },
    {"target", FIELD_STRING, true, "Domain name, also with a wildcard, or address"},
};
static const struct field policy_fields[] = {
    {"defaultAction",  FIELD_STRING,          false,            "allow or deny, for what no rule names"},
    {.name = "egress", .type = FIELD_OBJECTS, .about = "Rules", .inner = SCHEMA(rule_fields)           },
};
static const struct field secret_fields[] = {
    {"name",  FIELD_STRING,  true, "Variable that programs read it from"        },
    {"value", FIELD_STRING,  true, "The secret, which the sandbox never holds"  },
    {"hosts", FIELD_STRINGS, true, "Hosts whose requests may carry it, by HTTPS"},
};
static const struct field create_fields[] = {
    {"image",                  FIELD_STRING,                       false,
     "Image of the sandbox, such as python:3.12. Required, unless "
     "there is a snapshot_id."                                                                                                                                                                                                  },
    {"auth_username",          FIELD_STRING,                       false,                                             "User at the registry; goes with auth_password"                                                           },
    {"auth_password",          FIELD_STRING,                       false,                                             "Password at the registry"                                                                                },
    {"timeout_seconds",        FIELD_INTEGER,                      false,                                             "After which it is deleted; -1 = never",                                                                    "600", -1,
     315360000},
    {"ready_timeout_seconds",                      FIELD_NUMBER,                                                    false,                                                                                                     "How long to wait until it is ready",                                                                                                                                                                                         "30", 0,
     86400},
    {"health_check_polling_interval_ms",                   FIELD_INTEGER,false,"How often to ask","200", 1, 60000},
    {"skip_health_check",                        FIELD_BOOL,                         false,                                           "Do not wait until it is ready",                                                                                                                                                                                   "false"},
    {"env",                   FIELD_STRING_MAP,                                                    false,                                                                                                "Environment variables"                                                                                                                                                                                                                                                                                                                                                                                  },
    {"metadata",FIELD_STRING_MAP,false,"Labels"},
    {"resource",                    FIELD_STRING_MAP,                    false,             "Limits: {\"cpu\": \"1\", \"memory\": \"2Gi\"}"},
    {.name = "secret_env",
     .type = FIELD_OBJECTS,
     .about = "Secrets that programs inside use and never see",
     .inner = SCHEMA(secret_fields)                                                                                                                                                                                                                          },
    {.name = "network_policy",               .type = FIELD_OBJECT,              .inner = SCHEMA(policy_fields)                                      },
    {"extensions",     FIELD_STRING_MAP,                                        false,                                                       "Settings of the runtime, such as poolRef"                                                                                     },
    {"entrypoint", FIELD_STRINGS, false,       "Program and arguments; tail -f /dev/null"                                                                                                                                                                                             },
    {"snapshot_id",    FIELD_STRING,false,"Start from this snapshot instead of an image"                                                                          },
};

static int check_create(struct call *c)
{
    if (!call_arg(c, "auth_username") != !call_arg(c, "auth_password"))
        return err_set(&c->why, EINVAL,
                       "auth_username and auth_password go together: give both or none");
    if (!call_arg(c, "image") && !call_arg(c, "snapshot_id") && !call_arg(c, "extensions"))
        return err_set(&c->why, EINVAL, "'image' is missing: the name of an image");
    return 0;
}

/* The request itself is not cancelled: its answer has the id of what must be deleted then. */
static int create_and_wait(struct call *c, struct osb_create *create, struct json_writer *w)
{
    struct osb_sandbox *handle = NULL;
    bool wait = !create->no_wait;
    const char *id;
    int r;

    call_progress(c, 0.1, "creating the sandbox");
    create->no_wait = true;
    c->shielded = true;
    r = osb_sandbox_create(c->mcp->client, create, &handle);
    c->shielded = false;
    if (r < 0)
        return r;
    id = arena_strdup(&c->message->arena, str_of(osb_sandbox_id(handle)));
    r = id ? mcp_box_add(c->mcp, handle, true, &c->why) : -ENOMEM;
    if (r < 0)
        return r;
    call_progress(c, 0.3, "waiting until it is ready");
    if (c->canceled)
        r = -ECANCELED;
    c->box = mcp_box_find(c->mcp, id);
    c->box->refs++;
    if (r == 0 && wait)
        r = osb_sandbox_wait_ready(handle, create->ready_timeout_ms, create->ready_poll_ms);
    call_progress(c, 0.8, "reading its state");
    if (r == 0)
        r = write_info(c, id, w);
    if (r < 0) {
        call_keep_error(c, r);
        if (osb_sandbox_delete(c->mcp->client, id) == 0)
            mcp_box_forget(c->mcp, id);
        return r;
    }
    call_log(c, MCP_INFO, "sandbox %s was created", id);
    call_progress(c, 1.0, "ready");
    return 0;
}

static int fill_secrets(struct call *c, struct osb_create *create)
{
    const struct json *list = call_arg(c, "secret_env");
    size_t n = 0;
    struct osb_secret *all =
        arena_new_array(&c->message->arena, struct osb_secret, json_count(list) + 1);

    if (!all)
        return -ENOMEM;
    json_each(v, list)
    {
        all[n].name = json_get(v, STR("name"))->string.p;
        all[n].value = json_get(v, STR("value"))->string.p;
        all[n++].hosts = (const char *const *)call_strings(c, json_get(v, STR("hosts")), NULL);
    }
    create->secrets = n ? all : NULL;
    create->secret_count = n;
    return 0;
}

static int run_create(struct call *c, struct json_writer *w)
{
    const struct json *policy = call_arg(c, "network_policy");
    AUTO_BUF(policy_text, RPC_MESSAGE_BYTES_MAX);
    struct osb_create create = {
        OSB_CREATE,
        .image = call_text(c, "image"),
        .image_user = call_text(c, "auth_username"),
        .image_password = call_text(c, "auth_password"),
        .snapshot_id = call_text(c, "snapshot_id"),
        .timeout_s = call_int(c, "timeout_seconds"),
        .entrypoint = (const char *const *)call_strings(c, call_arg(c, "entrypoint"), NULL),
        .no_wait = call_bool(c, "skip_health_check"),
        .ready_timeout_ms = to_ms(call_number(c, "ready_timeout_seconds")),
        .ready_poll_ms = (uint32_t)call_int(c, "health_check_polling_interval_ms"),
    };
    struct json_writer p;
    int r = check_create(c);

    if (r == 0)
        r = fill_secrets(c, &create);
    if (r < 0)
        return r;
    create.env = call_pairs(c, call_arg(c, "env"), &create.env_count);
    create.metadata = call_pairs(c, call_arg(c, "metadata"), &create.metadata_count);
    create.resources = call_pairs(c, call_arg(c, "resource"), &create.resource_count);
    create.extensions = call_pairs(c, call_arg(c, "extensions"), &create.extension_count);
    if (policy) {
        json_write_begin(&p, &policy_text);
        json_write_value(&p, policy);
        r = json_write_end(&p);
        if (r < 0)
            return r;
        create.network_policy = policy_text.p;
    }
    return create_and_wait(c, &create, w);
}

/* --- the others --- */

static const struct field connect_fields[] = {
    FIELD_SANDBOX_ID,
    {"connect_timeout_seconds", FIELD_NUMBER, false, "How long to wait until it is ready", "30",                           0,
      86400},
    {"health_check_polling_interval_ms",                     FIELD_INTEGER,                                 false,     "How often to ask",        "200", 1, 60000},
    {"skip_health_check",                    FIELD_BOOL,                               false,                               "Do not wait until it is ready",                                                            "false"                                                                       },
};

static int run_connect(struct call *c, struct json_writer *w)
{
    const char *id = call_text(c, "sandbox_id");
    struct osb_sandbox *handle = NULL;
    int r = osb_sandbox_connect(c->mcp->client, id, &handle);

    if (r == 0 && !call_bool(c, "skip_health_check"))
        r = osb_sandbox_wait_ready(handle, to_ms(call_number(c, "connect_timeout_seconds")),
                                   (uint32_t)call_int(c, "health_check_polling_interval_ms"));
    if (r == 0)
        r = write_info(c, id, w);
    if (r < 0) {
        osb_sandbox_free(handle);
        return r;
    }
    return mcp_box_add(c->mcp, handle, false, &c->why);
}

static const struct field id_fields[] = {FIELD_SANDBOX_ID};
static const struct field id_connect_fields[] = {FIELD_SANDBOX_ID, FIELD_CONNECT};

static int run_kill(struct call *c, struct json_writer *w)
{
    const char *id = call_text(c, "sandbox_id");
    int r = osb_sandbox_delete(c->mcp->client, id);

    if (r == 0 || r == -ENOENT)
        mcp_box_forget(c->mcp, id);
    if (r == 0)
        tools_write_status(w, "killed");
    return r;
}

static int run_get_info(struct call *c, struct json_writer *w)
{
    struct osb_answer *answer = NULL;
    int r = osb_sandbox_get(c->mcp->client, call_text(c, "sandbox_id"), &answer);

    if (r == 0)
        r = tools_write_answer(w, answer, "");
    osb_answer_free(answer);
    return r;
}

static const struct field filter_fields[] = {
    {"states",                FIELD_STRINGS, false,
     "Any of these: Pending, Running, Pausing, Paused, Stopping, "
     "Terminated, Failed"                                           },
    {                   "metadata",       FIELD_STRING_MAP,         false, "All of these labels"},
    {      .name = "page",      .type = FIELD_INTEGER,           .about = "From 1",        .min = 1, .max = 1000000},
    { .name = "page_size", .type = FIELD_INTEGER,      .about = "At most 200",            .min = 1, .max = 200},
};
static const struct field list_fields[] = {
    {.name = "filter", .type = FIELD_OBJECT, .inner = SCHEMA(filter_fields)},
};

static uint32_t number_of(const struct json *object, struct str key)
{
    int64_t n = 0;

    (void)json_to_i64(json_get(object, key), &n);
    return (uint32_t)n;
}

static int run_list(struct call *c, struct json_writer *w)
{
    const struct json *given = call_arg(c, "filter");
    struct osb_filter filter = {
        OSB_FILTER,
        .states = (const char *const *)call_strings(c, json_get(given, STR("states")), NULL),
        .page = number_of(given, STR("page")),
        .page_size = number_of(given, STR("page_size")),
    };
    struct osb_answer *answer = NULL;
    int r;

    filter.metadata = call_pairs(c, json_get(given, STR("metadata")), &filter.metadata_count);
    call_progress(c, 0.1, "asking the server");
    r = osb_sandbox_list(c->mcp->client, &filter, &answer);
    if (r == 0) {
        json_write_object(w);
        json_write_key(w, STR("sandbox_infos"));
        r = tools_write_answer(w, answer, "items");
    }
    if (r == 0) {
        json_write_key(w, STR("pagination"));
        r = tools_write_answer(w, answer, "pagination");
        json_write_object_end(w);
    }
    osb_answer_free(answer);
    call_progress(c, 1.0, "done");
    return r;
}

static const struct field renew_fields[] = {
    FIELD_SANDBOX_ID,
    {.name = "timeout_seconds",
      .type = FIELD_INTEGER,
      .required = true,
      .about = "It expires so many seconds from now.",
      .min = 1,
      .max = 315360000},
};

static int run_renew(struct call *c, struct json_writer *w)
{
    struct osb_answer *answer = NULL;
    const char *when;
    int r = osb_sandbox_renew(c->mcp->client, call_text(c, "sandbox_id"),
                              call_int(c, "timeout_seconds"), &answer);

    if (r == 0) {
        when = osb_answer_text(answer, "expiresAt");
        json_write_object(w);
        json_member_string(w, STR("expires_at"), str_of(when ? when : ""));
        json_write_object_end(w);
    }
    osb_answer_free(answer);
    return r;
}

static int run_metrics(struct call *c, struct json_writer *w)
{
    struct osb_sandbox *sandbox;
    struct osb_metrics m;
    int r = call_box(c, &sandbox);

    if (r == 0)
        r = osb_metrics_get(sandbox, &m);
    if (r < 0)
        return r;
    json_write_object(w);
    json_member_double(w, STR("cpu_count"), m.cpu_count);
    json_member_double(w, STR("cpu_used_percentage"), m.cpu_used_percent);
    json_member_double(w, STR("memory_total_in_mib"), m.memory_total_mib);
    json_member_double(w, STR("memory_used_in_mib"), m.memory_used_mib);
    json_member_i64(w, STR("timestamp"), m.timestamp_ms);
    json_write_object_end(w);
    return 0;
}

static int run_healthcheck(struct call *c, struct json_writer *w)
{
    struct osb_sandbox *sandbox;
    int r = call_box(c, &sandbox);

    if (r < 0)
        return r;
    json_write_object(w);
    json_member_string(w, STR("sandbox_id"), call_str(c, "sandbox_id"));
    json_member_bool(w, STR("healthy"), osb_sandbox_is_healthy(sandbox) == 1);
    json_write_object_end(w);
    return 0;
}

static const struct field endpoint_fields[] = {
    FIELD_SANDBOX_ID,
    {.name = "port",
      .type = FIELD_INTEGER,
      .required = true,
      .about = "On which something in the sandbox listens",
      .min = 1,
      .max = ENDPOINT_PORT_MAX},
    FIELD_CONNECT,
};

static int run_endpoint(struct call *c, struct json_writer *w)
{
    struct osb_answer *answer = NULL;
    struct osb_sandbox *sandbox;
    const char *endpoint;
    int r = call_box(c, &sandbox);

    if (r == 0)
        r = osb_endpoint_get(c->mcp->client, call_text(c, "sandbox_id"),
                             (uint16_t)call_int(c, "port"), &answer);
    if (r == 0) {
        endpoint = osb_answer_text(answer, "endpoint");
        json_write_object(w);
        json_member_string(w, STR("endpoint"), str_of(endpoint ? endpoint : ""));
        json_write_key(w, STR("headers"));
        if (osb_answer_has(answer, "headers"))
            json_write_raw(w, str_of(osb_answer_text(answer, "headers")));
        else
            json_write_raw(w, STR("{}"));
        json_write_object_end(w);
    }
    osb_answer_free(answer);
    return r;
}

static int run_pause(struct call *c, struct json_writer *w)
{
    int r = osb_sandbox_pause(c->mcp->client, call_text(c, "sandbox_id"));

    if (r == 0)
        tools_write_status(w, "pausing");
    return r;
}

static int run_resume(struct call *c, struct json_writer *w)
{
    int r = osb_sandbox_resume(c->mcp->client, call_text(c, "sandbox_id"));

    if (r == 0)
        tools_write_status(w, "resuming");
    return r;
}

static const struct tool tools[] = {
    {"sandbox_create",       "Create a sandbox and wait until it is ready.",                      0,             SCHEMA(create_fields),
     run_create                                                                                                                                         },
    {"sandbox_connect",      "Connect to a sandbox that exists, to use it with the other tools.",
     TOOL_REPEATS,                                                                                               SCHEMA(connect_fields),    run_connect },
    {"sandbox_kill",         "Delete a sandbox and all that is in it.",                           TOOL_DESTROYS, SCHEMA(id_fields),
     run_kill                                                                                                                                           },
    {"sandbox_get_info",     "State, image, expiry and labels of a sandbox.",                     TOOL_READS,
     SCHEMA(id_fields),                                                                                                                     run_get_info},
    {"sandbox_list",         "List sandboxes of the server, by state and labels, page by page.",  TOOL_READS,
     SCHEMA(list_fields),                                                                                                                   run_list    },
    {"sandbox_renew",        "Let a sandbox live longer.",                                        0,             SCHEMA(renew_fields),      run_renew   },
    {"sandbox_get_metrics",  "Processors and memory of a sandbox, and how much is used.",         TOOL_READS,
     SCHEMA(id_connect_fields),                                                                                                             run_metrics },
    {"sandbox_healthcheck",  "Whether a sandbox answers.",                                        TOOL_READS,    SCHEMA(id_connect_fields),
     run_healthcheck                                                                                                                                    },
    {"sandbox_get_endpoint", "Address of a port of a sandbox, and headers that requests need.",
     TOOL_READS,                                                                                                 SCHEMA(endpoint_fields),   run_endpoint},
    {"sandbox_pause",        "Stop all processes of a sandbox; it keeps its memory and files.",
     TOOL_REPEATS,                                                                                               SCHEMA(id_fields),         run_pause   },
    {"sandbox_resume",       "Let a paused sandbox go on.",                                       TOOL_REPEATS,  SCHEMA(id_fields),         run_resume  },
};
const struct tool_group sandbox_tools = {tools, ARRAY_LEN(tools)};
