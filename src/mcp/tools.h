/* tools.h - the table of tools: what a client sees of each, and what runs. */
#pragma once

#include "mcp/mcp.h"
#include "mcp/schema.h"

enum tool_hints {
    TOOL_READS = 1 << 0,    /* changes nothing */
    TOOL_DESTROYS = 1 << 1, /* may lose what cannot be made again */
    TOOL_REPEATS = 1 << 2,  /* twice is the same as once */
};

struct tool {
    const char *name, *about;
    unsigned hints;
    struct schema schema;
    /* Writes the result, an object. A failure is told by call->why, or else by the error of the
     * library. */
    int (*run)(struct call *call, struct json_writer *w);
};

struct tool_group {
    const struct tool *tools;
    size_t count;
};

extern const struct tool_group sandbox_tools, command_tools, file_tools, code_tools, egress_tools,
    more_tools;

const struct tool *tools_find(struct str name);
void tools_write(struct json_writer *w); /* the list of all */

/* Rows that many schemas share. */
#define FIELD_SANDBOX_ID                                                                           \
    {                                                                                              \
        "sandbox_id", FIELD_STRING, true, "Id of the sandbox, as sandbox_create gave it."          \
    }
#define FIELD_CONNECT                                                                              \
    {                                                                                              \
        .name = "connect_if_missing", .type = FIELD_BOOL, .otherwise = "false",                    \
        .about = "Connect to the sandbox first if this server does not know it yet.",              \
    }

/* Writes JSON of the server with its keys in snake_case; keys that users chose stay. */
void tools_write_snake(struct json_writer *w, const struct json *v);
/* The same of all of an answer, or of the value at `path`. */
int tools_write_answer(struct json_writer *w, const struct osb_answer *answer, const char *path);
/* {"status": "killed"} */
void tools_write_status(struct json_writer *w, const char *status);
