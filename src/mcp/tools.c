/* tools.c - all tools as one list, and what they have in common. */
#include "mcp/tools.h"

#include <errno.h>

static const struct tool_group *const groups[] = {
    &sandbox_tools, &command_tools, &file_tools, &code_tools, &egress_tools, &more_tools,
};

const struct tool *tools_find(struct str name)
{
    for (size_t g = 0; g < ARRAY_LEN(groups); g++)
        for (size_t i = 0; i < groups[g]->count; i++)
            if (str_eq(str_of(groups[g]->tools[i].name), name))
                return &groups[g]->tools[i];
    return NULL;
}

static void write_tool(struct json_writer *w, const struct tool *t)
{
    json_write_object(w);
    json_member_string(w, STR("name"), str_of(t->name));
    json_member_string(w, STR("description"), str_of(t->about));
    json_write_key(w, STR("inputSchema"));
    schema_write(w, &t->schema);
    json_write_key(w, STR("annotations"));
    json_write_object(w);
    json_member_bool(w, STR("readOnlyHint"), t->hints & TOOL_READS);
    json_member_bool(w, STR("destructiveHint"), t->hints & TOOL_DESTROYS);
    json_member_bool(w, STR("idempotentHint"), t->hints & (TOOL_REPEATS | TOOL_READS));
    json_member_bool(w, STR("openWorldHint"), false);
    json_write_object_end(w);
    json_write_object_end(w);
}

void tools_write(struct json_writer *w)
{
    json_write_array(w);
    for (size_t g = 0; g < ARRAY_LEN(groups); g++)
        for (size_t i = 0; i < groups[g]->count; i++)
            write_tool(w, &groups[g]->tools[i]);
    json_write_array_end(w);
}

/* --- results --- */

enum { KEY_BYTES_MAX = 128, ANSWER_BYTES_MAX = 64 << 20 };

static void write_key(struct json_writer *w, struct str key)
{
    AUTO_BUF(snake, KEY_BYTES_MAX);

    for (size_t i = 0; i < key.n; i++) {
        if (key.p[i] >= 'A' && key.p[i] <= 'Z')
            (void)buf_add_char(&snake, '_');
        (void)buf_add_char(&snake, ascii_lower(key.p[i]));
    }
    json_write_key(w, key.n > KEY_BYTES_MAX / 2 ? key : buf_str(&snake));
}

/* Objects whose keys are not ours. */
static bool has_own_keys(struct str key)
{
    static const char *const names[] = {"metadata", "env", "headers", "extensions",
                                        "resourceLimits"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_eq(key, str_of(names[i])))
            return true;
    return false;
}

static void write_member(struct json_writer *w, const struct json *v)
{
    const struct json *uri = str_eq(v->key, STR("image")) ? json_get(v, STR("uri")) : NULL;

    write_key(w, v->key);
    if (has_own_keys(v->key)) {
        json_write_value(w, v);
    } else if (uri) { /* as the Python SDK names it */
        json_write_object(w);
        json_write_key(w, STR("image"));
        json_write_value(w, uri);
        json_write_object_end(w);
    } else {
        tools_write_snake(w, v);
    }
}

void tools_write_snake(struct json_writer *w, const struct json *v)
{
    if (v->type == JSON_ARRAY) {
        json_write_array(w);
        json_each(item, v) tools_write_snake(w, item);
        json_write_array_end(w);
    } else if (v->type == JSON_OBJECT) {
        json_write_object(w);
        json_each(item, v) write_member(w, item);
        json_write_object_end(w);
    } else {
        json_write_value(w, v);
    }
}

int tools_write_answer(struct json_writer *w, const struct osb_answer *answer, const char *path)
{
    AUTO_ARENA(arena, ANSWER_BYTES_MAX);
    const char *text = osb_answer_text(answer, path);
    struct json *v = NULL;

    if (!text || json_parse(&arena, str_of(text), NULL, &v, NULL) < 0)
        return -EBADMSG;
    tools_write_snake(w, v);
    return 0;
}

void tools_write_status(struct json_writer *w, const char *status)
{
    json_write_object(w);
    json_member_string(w, STR("status"), str_of(status));
    json_write_object_end(w);
}
