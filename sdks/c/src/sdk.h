/* sdk.h - what the files of libopensandbox share: the client, its tasks, one HTTP exchange.
 *
 * All code here is written as if it blocked. client_wait is the only place where it does: outside
 * of tasks it runs the loop, inside of one it switches to the code that resumed it. Callbacks of
 * the loop only store what came and wake the task that waits; user code is never called from them.
 */
#pragma once

#include <opensandbox/opensandbox.h>
#include <ucontext.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_bind.h"
#include "base/list.h"
#include "base/map.h"
#include "base/time.h"
#include "net/http_client.h"
#include "net/loop.h"
#include "net/pool.h"
#include "net/tls.h"

enum {
    SDK_BODY_BYTES_MAX = 64 << 20,    /* of an answer that is kept */
    SDK_REQUEST_BYTES_MAX = 64 << 20, /* of a JSON body that we write */
    SDK_ERROR_BYTES_MAX = 64 << 10,   /* of an error's body: the rest is not read */
    SDK_LINE_BYTES_MAX = 16 << 20,    /* of one event */
    SDK_IN_BYTES_MAX = 256 << 10,     /* received and not yet read by the caller */
    SDK_TARGET_BYTES_MAX = 128 << 10, /* path and query */
    SDK_OUTPUT_BYTES_MAX = 16 << 20,  /* of each output an execution keeps, unless told */
    SDK_RESULTS_MAX = 4096,           /* of an execution */
    SDK_HEADERS_MAX = 128,
    SDK_READY_MS = 30 * 1000,
    SDK_READY_POLL_MS = 200,
};

#define SDK_API_KEY_HEADER "OPEN-SANDBOX-API-KEY"

struct osb_error {
    int number; /* positive errno */
    int status, retry_after_s;
    char code[96], message[OSB_MESSAGE_MAX], request_id[128];
};

/* A task, or the program outside of tasks (client->main). */
struct osb_task {
    struct osb_client *client;
    struct list link, ready_link;
    osb_task_fn *fn;
    void *user;
    ucontext_t context, resumer;
    char *stack;
    struct loop_timer timer;
    struct osb_task *joiner;
    int64_t timeout_ms;   /* osb_client_set_timeout */
    uint64_t op_deadline; /* of a call that consists of several exchanges; 0 = none is under way */
    struct osb_error error;
    bool waiting, woken, timed_out, canceled, ready, begun, ended, detached;
};

/* Where requests go: the server, or a port of a sandbox. */
struct site {
    bool tls;
    uint16_t port;
    char *name;               /* host name or address, without brackets */
    char *authority;          /* value of the Host header */
    char *path;               /* before every target; "" or "/x/y" */
    struct osb_pair *headers; /* owned */
    size_t header_count;
    bool is_server; /* then the API key goes along */
};
int site_parse(struct site *s, const char *text, bool tls, struct err *e); /* [scheme://]host... */
void site_done(struct site *s);
int site_add_header(struct site *s, struct str name, struct str value, struct err *e);

struct osb_client {
    struct loop *loop;
    struct http_client *http;
    struct tls_client *tls; /* made at the first https */
    struct pool *pool;      /* name lookup; made when needed */
    struct map addresses;   /* "host:port" -> struct address */
    struct osb_task main, *current;
    struct list tasks, ready;
    struct list ptys;            /* terminals with a connection, also those that were closed */
    size_t task_count, unjoined; /* those that ended, detached, and are not freed yet */
    bool closing;
    int interrupt_fd, timer_fd;
    struct loop_io interrupt_io, timer_io;

    struct site server;
    char *base_url, *api_key, *user_agent, *ca_file;
    bool insecure, use_server_proxy;
    uint32_t request_ms, connect_ms, idle_ms;
};

struct osb_sandbox {
    struct osb_client *client;
    char *id;
    struct map sites; /* port -> struct site */
};
/* The way to a port, asked for once. */
int sandbox_site(struct osb_sandbox *sb, uint16_t port, const struct site **ret);

/* --- waiting (task.c) --- */

/* Until client_wake(*slot), or the deadline: 0, -ETIMEDOUT, -ECANCELED. */
int client_wait(struct osb_client *c, struct osb_task **slot, uint64_t deadline);
void client_wake(struct osb_task **slot);
int client_tasks_init(struct osb_client *c, struct err *e);
void client_tasks_done(struct osb_client *c);
/* For calls of several exchanges: sets the limit of all of them, gives back the one before. */
uint64_t op_begin(struct osb_client *c);
void op_end(struct osb_client *c, uint64_t before);

/* Ends the connections of terminals, without waiting for the peers (pty.c). */
void client_cut_ptys(struct osb_client *c);

/* --- errors (error.c): set the error of the current task and return -errno --- */

int fail(struct osb_client *c, int number, const char *fmt, ...) PRINTF_LIKE(3, 4);
int fail_err(struct osb_client *c, const struct err *e);
/* For the codes of client_wait. */
int fail_wait(struct osb_client *c, int r, const char *what);
int fail_http(struct osb_client *c, int status, struct str body, struct str request_id,
              struct str retry_after);

/* --- one HTTP exchange (exchange.c) --- */

struct exchange {
    struct osb_client *client;
    struct http_call *call; /* NULL before the start and after the end */
    struct osb_task *waiter;
    struct arena arena; /* of the headers */
    struct http_headers headers;
    int status; /* 0 until the head came */
    struct buf in, taken;
    uint64_t head_deadline, deadline; /* until the head, and all of it */
    uint32_t idle_ms;                 /* of the body; 0 = no limit */
    const struct site *site;
    bool ended, room;
    int error;
    char why[252];
};

struct exchange_spec {
    const struct site *site;
    enum http_method method;
    struct str method_name; /* for HTTP_OTHER */
    struct str target;
    const struct http_header *headers;
    size_t header_count;
    struct str content_type; /* "" = none */
    struct str body;
    bool streams_body;
    uint64_t body_length;
    bool streams; /* the answer is a stream: the request timeout ends with its head */
    uint32_t idle_ms;
};

/* All fail with the error set. exchange_close is always right afterwards, and may be called twice.
 */
int exchange_start(struct exchange *x, struct osb_client *c, const struct exchange_spec *spec);
int exchange_write(struct exchange *x, struct str data); /* 1 = answered early: stop writing */
int exchange_head(struct exchange *x);                   /* until a 2xx head; other statuses fail */
int exchange_next(struct exchange *x, struct str *ret);  /* 1 and a piece, 0 at the end */
struct str exchange_header(const struct exchange *x, struct str name);
void exchange_close(struct exchange *x);

/* The address of a site, looked up by a worker. */
int client_resolve(struct osb_client *c, const struct site *site, struct sock_addr *ret);
int client_security(struct osb_client *c, const struct site *site, struct stream_security **ret);
/* User agent, headers of configuration and site, and the API key if the site is the server. At most
 * SDK_HEADERS_MAX with those that are there; the site's win over the configuration's. */
int client_headers(struct osb_client *c, const struct site *site, struct http_header *rows,
                   size_t *count);

/* --- targets: "/a/" with encoded segments and a query --- */

struct target {
    struct buf text;
    int error;
    bool has_query;
};
void target_init(struct target *t, const char *path); /* as it is, may have a query */
void target_segment(struct target *t, const char *segment);
void target_add(struct target *t, const char *path);
void target_query(struct target *t, const char *name, const char *value); /* NULL = skipped */
void target_query_i64(struct target *t, const char *name, int64_t value);
void target_page(struct target *t, const struct osb_filter *f); /* states, page, pageSize */
void target_done(struct target *t);
int fail_target(struct osb_client *c, int r); /* for target.error */

/* --- answers (answer.c) --- */

struct osb_answer {
    struct arena arena;
    struct http_headers headers;
    int status;
    struct buf body;
    struct json *json; /* NULL when the body is none */
    struct osb_info *infos;
    struct osb_file *files;
    struct view *views;
    size_t info_count, file_count, view_count;
};

/* Reads the rest of the exchange and takes its headers. */
int answer_read(struct exchange *x, struct osb_answer **ret);
/* A whole request: target and body as given; ret may be NULL. Frees the target. */
struct simple {
    const struct site *site;
    enum http_method method;
    struct target *target;
    const struct buf *body; /* JSON; NULL = none */
    int body_error;         /* of its writer: fails the call */
};
int simple_call(struct osb_client *c, const struct simple *s, struct osb_answer **ret);
int answer_bind_infos(struct osb_client *c, struct osb_answer *a);
int answer_bind_files(struct osb_client *c, struct osb_answer *a);
/* The value as text, kept in the answer; NULL when that is full. */
const char *answer_json_text(struct osb_answer *a, const struct json *v);
/* An answer whose body is `v`, with the headers of the exchange. */
int answer_of_json(struct exchange *x, const struct json *v, struct osb_answer **ret);

/* --- typed views of answers (view.c): images, pools, volumes --- */

struct view {
    const struct json *json; /* an object */
    struct osb_answer *answer;
};
/* Of one object, or of the items of a page. */
int answer_bind_views(struct osb_client *c, struct osb_answer *a);
/* Goes on after a call that returned r: binds, and gives or frees the answer. */
int with_views(struct osb_client *c, int r, struct osb_answer *a, struct osb_answer **ret);
int view_call(struct osb_client *c, const struct simple *s, struct osb_answer **ret);
const struct view *view_at(const struct osb_answer *a, size_t index); /* or NULL */
const char *view_text(const struct view *v, const char *key);         /* or "" */
int64_t view_int(const struct view *v, const char *key, int64_t otherwise);
const char *view_element(const struct view *v, const char *key, size_t index); /* or NULL */
const char *view_json(const struct view *v);

/* The body of a create (sandbox.c). */
int create_write(struct osb_client *c, const struct osb_create *o, struct arena *a,
                 struct buf *body);

/* --- streams of JSON documents (events.c) --- */

struct events {
    struct osb_client *client;
    struct exchange *x;
    struct buf rest; /* received, not yet handled */
    size_t at;
    struct arena arena; /* of the current document */
    bool at_end;
};
void events_init(struct events *ev, struct exchange *x);
/* 1 and the next document, valid until the next call; 0 at the end of the stream. */
int events_next(struct events *ev, struct json **ret, struct str *ret_text);
void events_done(struct events *ev);

/* Runs a request whose answer is a stream of a run. */
struct run_spec {
    struct target *target;
    const struct buf *body;
    int body_error;
    osb_event_fn *on_event;
    void *user;
    bool discard, is_code, background;
    size_t output_bytes_max;
};
int run_stream(struct osb_sandbox *sb, const struct run_spec *spec, struct osb_execution **ret);

/* Pairs of the API as those of src/api: in the arena. NULL when it is full. */
struct json_pair *pairs_convert(struct arena *a, const struct osb_pair *pairs, size_t count);
struct str *strs_convert(struct arena *a, const char *const *list, size_t *ret_count);
int pull_policy_of(struct osb_client *c, const char *text, int *ret); /* enum api_pull_policy */

static inline struct str str_or_empty(const char *s)
{
    return s ? str_of(s) : STR("");
}

/* The options of a caller, who may know fewer fields, or more, than we do. */
#define OPTIONS_COPY(type, name, from)                                                             \
    type name = {0};                                                                               \
    if (from)                                                                                      \
    memcpy(&name, (from), min_size((from)->size, sizeof(name)))
