/* execd.h - the API of execd as a client speaks it: writes its requests, reads its answers and
 * events.
 *
 * Writers append compact JSON to `out` and leave out what is "" or 0: 0, -EMSGSIZE or -ENOMEM.
 * Readers ignore unknown fields; strings borrow from the document or the arena. -EBADMSG with the
 * path of the field when one does not fit. */
#pragma once

#include "base/buf.h"
#include "base/json_bind.h"

/* --- requests --- */

/* POST /command, and for the first four fields of it POST /session/{id}/run. */
struct api_run {
    struct str command, cwd;
    int64_t timeout_ms;
    struct json_pair *envs;
    size_t envs_count;
    struct str *argv;
    size_t argv_count;
    bool background, has_uid, has_gid, has_input, stdin_open;
    uint32_t uid, gid;
    struct str input;
};
int api_run_write(struct buf *out, const struct api_run *run);
int api_session_run_write(struct buf *out, const struct api_run *run);

/* POST /code/context; id only inside POST /code. */
struct api_context {
    struct str id, language, cwd, kernel;
    struct json_pair *envs;
    size_t envs_count;
};
int api_context_write(struct buf *out, const struct api_context *context);

struct api_code {
    struct str code;
    struct api_context context;
    int64_t timeout_ms;
};
int api_code_write(struct buf *out, const struct api_code *code);

/* POST /session and POST /pty. */
int api_shell_write(struct buf *out, struct str cwd, struct str command);

/* A file to be written, or whose mode and owner are to be set. The path is a member of it in the
 * metadata of an upload, and the key of it elsewhere. */
struct api_permission {
    struct str path, owner, group;
    uint32_t mode; /* 0644; 0 = not given */
};
int api_upload_meta_write(struct buf *out, const struct api_permission *p);
int api_permissions_write(struct buf *out, const struct api_permission *list, size_t count);

struct api_move {
    struct str from, to;
};
int api_moves_write(struct buf *out, const struct api_move *list, size_t count);

struct api_replace {
    struct str path, old_text, new_text;
};
int api_replaces_write(struct buf *out, const struct api_replace *list, size_t count);

/* --- answers --- */

struct api_file {
    struct str path, type, owner, group;
    uint64_t size;
    uint32_t mode; /* 0644 */
    int64_t modified_us, created_us;
};
int api_file_read(struct arena *a, const struct json *v, struct api_file *ret, struct err *e);

struct api_metrics {
    double cpu_count, cpu_used_pct, mem_total_mib, mem_used_mib;
    int64_t timestamp_ms;
};
int api_metrics_read(struct arena *a, const struct json *v, struct api_metrics *ret, struct err *e);

/* --- events, one JSON document each --- */

enum api_event_type {
    API_EVENT_OTHER, /* a type that we do not know */
    API_EVENT_INIT,
    API_EVENT_STDOUT,
    API_EVENT_STDERR,
    API_EVENT_RESULT,
    API_EVENT_EXECUTION_COUNT,
    API_EVENT_ERROR,
    API_EVENT_COMPLETE,
    API_EVENT_PING,
    API_EVENT_CREATE, /* from here on: of a watched directory */
    API_EVENT_MODIFY,
    API_EVENT_DELETE,
    API_EVENT_MOVE,
    API_EVENT_OVERFLOW,
};

struct api_event {
    enum api_event_type type;
    struct str text;
    int64_t timestamp_ms, execution_time_ms;
    uint32_t execution_count;
    bool continues, unfinished;
    const struct json *results, *display; /* NULL = none */
    struct str error_name, error_value;
    struct str *traceback;
    size_t traceback_count;
    struct str path, from; /* of a watched directory */
    bool directory;
};
int api_event_read(struct arena *a, const struct json *v, struct api_event *ret, struct err *e);
