/* mcp.h - the Model Context Protocol, whichever way messages come: sessions, methods, tool calls.
 *
 * One thread, one loop. Every tool call is a task of libopensandbox with a stack of its own: calls
 * run side by side, and each reads as if it blocked. A transport hands messages to mcp_handle and
 * gives a channel on which the answer, and what is told before it, goes back. */
#pragma once

#include <opensandbox/opensandbox.h>

#include "base/list.h"
#include "base/map.h"
#include "base/time.h"
#include "mcp/options.h"
#include "mcp/outputs.h"
#include "mcp/rpc.h"
#include "net/loop.h"

enum {
    MCP_CALLS_MAX = 256,
    MCP_BOXES_MAX = 4096,
    MCP_END_MS = 5000, /* for calls in progress to end, and again to delete sandboxes */
    MCP_REPLY_BYTES_MAX = 64 << 20,
    MCP_SESSION_ID_MAX = 40,
};

/* Of a request that says itself which revision it is in, as those since 2026-07-28 do. */
#define MCP_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define MCP_META_LEVEL   "io.modelcontextprotocol/logLevel"

struct mcp;
struct tool;

/* Where messages of one request go. */
struct channel {
    void (*send)(struct channel *c, struct str message, bool is_answer);
    /* Exactly once: after the answer, or without one when the request was cancelled. It may free
     * the channel. */
    void (*end)(struct channel *c);
    enum rpc_code code; /* of an answer that is an error; else 0 */
};

/* Severities of RFC 5424, the least severe first. */
enum mcp_level { MCP_DEBUG, MCP_INFO, MCP_NOTICE, MCP_WARNING, MCP_ERROR, MCP_LEVELS = 8 };

/* One client, from its initialize on. */
struct session {
    struct list link;
    char id[MCP_SESSION_ID_MAX];
    int level; /* of what it is told */
    size_t calls;
    uint64_t used_ms;
};

/* A sandbox created or connected by this process. Calls hold it while they use it. */
struct box {
    struct osb_sandbox *handle;
    unsigned refs;
    bool created; /* by us, so we delete it at the end */
};
void box_unref(struct box *b);

struct mcp {
    const struct options *options;
    struct loop *loop;
    struct osb_client *client;
    struct map boxes; /* by id */
    struct list calls, ended;
    size_t call_count; /* of calls */
    struct outputs outputs;
    size_t removals; /* of sandboxes at the end, under way */
};

/* A tool at work. */
struct call {
    struct mcp *mcp;
    struct list link;
    struct session *session;
    struct channel *channel;
    struct rpc_message *message; /* owned */
    const struct tool *tool;
    const struct json *arguments, *progress_token;
    struct osb_task *task;
    struct box *box;
    struct err why;       /* of a failure that is not the library's */
    struct buf content;   /* items beside the text, each with a comma in front */
    double progress;      /* told last */
    uint64_t progress_ms; /* when */
    int level;            /* of what is told */
    bool modern, canceled;
    bool shielded; /* what is under way is not cancelled */
};

int mcp_init(struct mcp *m, const struct options *o, struct loop *loop, struct err *e);
/* Frees what is left; mcp_finish comes before it. */
void mcp_done(struct mcp *m);
/* One wait for events of the loop and of the library. */
int mcp_turn(struct mcp *m, int wait_ms, struct err *e);
/* Cancels the calls, and deletes the sandboxes that were created here unless they shall stay. */
void mcp_finish(struct mcp *m);

void session_init(struct session *s);
/* Answers, now or later; takes over the message. For other kinds of messages than requests the
 * channel may be NULL: nothing is answered. */
void mcp_handle(struct mcp *m, struct session *s, struct channel *c, struct rpc_message *message);
/* The error of a message that could not be read or is refused. Ends the channel. */
void mcp_refuse(struct channel *c, const struct json *id, enum rpc_code code, const char *why,
                struct str data);
bool mcp_knows_version(struct str version); /* for the header of HTTP */
int mcp_level_of(const struct json *name, int *ret);

/* --- for tools (call.c) --- */

void call_start(struct mcp *m, struct session *s, struct channel *c, struct rpc_message *message,
                const struct tool *tool);
/* Requests of that id, or with NULL all. */
void call_cancel(struct mcp *m, const struct session *s, const struct json *id);
void call_cancel_channel(struct mcp *m, const struct channel *c);
void calls_reap(struct mcp *m); /* frees those that ended */
void call_progress(struct call *c, double progress, const char *message);
/* Tells the client, if it wants to hear of that level. */
void call_log(struct call *c, enum mcp_level level, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Arguments, or their defaults. Texts live as long as the call. */
const struct json *call_arg(const struct call *c, const char *name); /* NULL: absent or null */
struct str call_str(const struct call *c, const char *name);         /* STR_NONE: absent */
const char *call_text(const struct call *c, const char *name);       /* NULL: absent */
int64_t call_int(const struct call *c, const char *name);
double call_number(const struct call *c, const char *name);
bool call_bool(const struct call *c, const char *name);
/* In the arena of the message. NULL when there are none. */
const char **call_strings(struct call *c, const struct json *list, size_t *ret_count);
struct osb_pair *call_pairs(struct call *c, const struct json *map, size_t *ret_count);

/* The sandbox of "sandbox_id", held until the call ends. */
int call_box(struct call *c, struct osb_sandbox **ret);
struct box *mcp_box_find(const struct mcp *m, const char *id);
/* Takes over the handle, also on failure. */
int mcp_box_add(struct mcp *m, struct osb_sandbox *handle, bool created, struct err *e);
void mcp_box_forget(struct mcp *m, const char *id);

/* Tells this failure, whatever calls of the library follow. */
void call_keep_error(struct call *c, int r);
/* Adds a link to text that was cut, and keeps all of it. */
int call_link(struct call *c, const char *name, struct str text, const char **ret_uri);
int call_image(struct call *c, struct str mime, struct str base64);
