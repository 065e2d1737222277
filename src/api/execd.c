#include "api/execd.h"

#include <errno.h>

#include "api/body.h"

enum { TRACEBACK_MAX = 4096 };

#define OPTIONAL_STR(name, type, member) JSON_FIELD(name, JSON_AS_STR, JSON_NULLABLE, type, member)
#define TEXT(name, type, member)         JSON_FIELD(name, JSON_AS_STR, JSON_REQUIRED, type, member)

static const struct json_field string_element = {.as = JSON_AS_STR};

/* Modes are decimal numbers whose digits are octal: 0644 is 644. */
static uint32_t mode_digits(uint32_t mode)
{
    uint32_t digits = 0, place = 1;

    for (; mode; mode >>= 3, place *= 10)
        digits += (mode & 7) * place;
    return digits;
}

static int parse_mode(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                      struct err *e)
{
    uint32_t mode = 0, shift = 0;
    uint64_t digits;

    if (json_to_u64(v, &digits) < 0 || digits > 7777)
        return err_set(e, EBADMSG, "expected a mode such as 644");
    for (; digits; digits /= 10, shift += 3) {
        if (digits % 10 > 7)
            return err_set(e, EBADMSG, "expected octal digits");
        mode |= (uint32_t)(digits % 10) << shift;
    }
    *(uint32_t *)ret = mode;
    return 0;
}

static void print_mode(struct json_writer *w, const struct json_field *f, const void *from)
{
    if (*(const uint32_t *)from)
        json_member_u64(w, str_of(f->name), mode_digits(*(const uint32_t *)from));
}

static int write_bound(struct buf *out, const struct json_table *t, const void *from)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_bind_write(&w, t, from);
    return json_write_end(&w);
}

/* --- requests --- */

#define RUN_ROWS                                                                                   \
    OPTIONAL_STR("command", struct api_run, command), OPTIONAL_STR("cwd", struct api_run, cwd),    \
        JSON_FIELD("timeout", JSON_AS_I64, JSON_NULLABLE, struct api_run, timeout_ms),             \
        JSON_LIST("envs", JSON_AS_MAP, JSON_NULLABLE, struct api_run, envs)

static const struct json_field session_run_fields[] = {RUN_ROWS};
static const struct json_table session_run_table =
    JSON_TABLE(struct api_run, session_run_fields, 0);

static const struct json_field run_fields[] = {
    RUN_ROWS,
    JSON_LIST("argv", JSON_AS_ARRAY, JSON_NULLABLE, struct api_run, argv,
              .element = &string_element),
    JSON_FIELD("background", JSON_AS_BOOL, JSON_NULLABLE, struct api_run, background),
    JSON_FIELD("uid", JSON_AS_U32, JSON_NULLABLE, struct api_run, uid,
               .seen_at = JSON_SEEN(struct api_run, has_uid)),
    JSON_FIELD("gid", JSON_AS_U32, JSON_NULLABLE, struct api_run, gid,
               .seen_at = JSON_SEEN(struct api_run, has_gid)),
    JSON_FIELD("stdin", JSON_AS_STR, JSON_NULLABLE, struct api_run, input,
               .seen_at = JSON_SEEN(struct api_run, has_input)),
    JSON_FIELD("stdin_open", JSON_AS_BOOL, JSON_NULLABLE, struct api_run, stdin_open),
};
static const struct json_table run_table = JSON_TABLE(struct api_run, run_fields, 0);

int api_run_write(struct buf *out, const struct api_run *run)
{
    return write_bound(out, &run_table, run);
}

int api_session_run_write(struct buf *out, const struct api_run *run)
{
    return write_bound(out, &session_run_table, run);
}

static const struct json_field context_fields[] = {
    OPTIONAL_STR("id", struct api_context, id),
    OPTIONAL_STR("language", struct api_context, language),
    OPTIONAL_STR("cwd", struct api_context, cwd),
    OPTIONAL_STR("kernel", struct api_context, kernel),
    JSON_LIST("envs", JSON_AS_MAP, JSON_NULLABLE, struct api_context, envs),
};
static const struct json_table context_table = JSON_TABLE(struct api_context, context_fields, 0);

int api_context_write(struct buf *out, const struct api_context *context)
{
    return write_bound(out, &context_table, context);
}

static const struct json_field code_fields[] = {
    TEXT("code", struct api_code, code),
    JSON_FIELD("context", JSON_AS_OBJECT, JSON_NULLABLE, struct api_code, context,
               .table = &context_table),
    JSON_FIELD("timeout", JSON_AS_I64, JSON_NULLABLE, struct api_code, timeout_ms),
};
static const struct json_table code_table = JSON_TABLE(struct api_code, code_fields, 0);

int api_code_write(struct buf *out, const struct api_code *code)
{
    return write_bound(out, &code_table, code);
}

static const struct json_field shell_fields[] = {
    OPTIONAL_STR("cwd", struct api_run, cwd),
    OPTIONAL_STR("command", struct api_run, command),
};
static const struct json_table shell_table = JSON_TABLE(struct api_run, shell_fields, 0);

int api_shell_write(struct buf *out, struct str cwd, struct str command)
{
    return write_bound(out, &shell_table, &(struct api_run){.cwd = cwd, .command = command});
}

#define PERMISSION_ROWS                                                                            \
    OPTIONAL_STR("owner", struct api_permission, owner),                                           \
        OPTIONAL_STR("group", struct api_permission, group),                                       \
        JSON_FIELD("mode", JSON_AS_CUSTOM, JSON_NULLABLE, struct api_permission, mode,             \
                   .parse = parse_mode, .print = print_mode)

static const struct json_field permission_fields[] = {PERMISSION_ROWS};
static const struct json_table permission_table =
    JSON_TABLE(struct api_permission, permission_fields, 0);
static const struct json_field upload_meta_fields[] = {
    TEXT("path", struct api_permission, path),
    PERMISSION_ROWS,
};
static const struct json_table upload_meta_table =
    JSON_TABLE(struct api_permission, upload_meta_fields, 0);

int api_upload_meta_write(struct buf *out, const struct api_permission *p)
{
    return write_bound(out, &upload_meta_table, p);
}

int api_permissions_write(struct buf *out, const struct api_permission *list, size_t count)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    for (size_t i = 0; i < count; i++) {
        json_write_key(&w, list[i].path);
        json_bind_write(&w, &permission_table, &list[i]);
    }
    json_write_object_end(&w);
    return json_write_end(&w);
}

static const struct json_field move_fields[] = {
    TEXT("src", struct api_move, from),
    TEXT("dest", struct api_move, to),
};
static const struct json_table move_table = JSON_TABLE(struct api_move, move_fields, 0);

int api_moves_write(struct buf *out, const struct api_move *list, size_t count)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_array(&w);
    for (size_t i = 0; i < count; i++)
        json_bind_write(&w, &move_table, &list[i]);
    json_write_array_end(&w);
    return json_write_end(&w);
}

static const struct json_field replace_fields[] = {
    TEXT("old", struct api_replace, old_text),
    TEXT("new", struct api_replace, new_text),
};
static const struct json_table replace_table = JSON_TABLE(struct api_replace, replace_fields, 0);

int api_replaces_write(struct buf *out, const struct api_replace *list, size_t count)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    for (size_t i = 0; i < count; i++) {
        json_write_key(&w, list[i].path);
        json_bind_write(&w, &replace_table, &list[i]);
    }
    json_write_object_end(&w);
    return json_write_end(&w);
}

/* --- answers --- */

#define OPTIONAL_TIME(name, type, member)                                                          \
    JSON_FIELD(name, JSON_AS_CUSTOM, JSON_NULLABLE, type, member, .parse = api_parse_time,         \
               .print = api_print_time)

static const struct json_field file_fields[] = {
    TEXT("path", struct api_file, path),
    OPTIONAL_STR("type", struct api_file, type),
    JSON_FIELD("size", JSON_AS_U64, JSON_NULLABLE, struct api_file, size),
    OPTIONAL_TIME("modified_at", struct api_file, modified_us),
    OPTIONAL_TIME("created_at", struct api_file, created_us),
    OPTIONAL_STR("owner", struct api_file, owner),
    OPTIONAL_STR("group", struct api_file, group),
    JSON_FIELD("mode", JSON_AS_CUSTOM, JSON_NULLABLE, struct api_file, mode, .parse = parse_mode,
               .print = print_mode),
};
static const struct json_table file_table = JSON_TABLE(struct api_file, file_fields, 0);

int api_file_read(struct arena *a, const struct json *v, struct api_file *ret, struct err *e)
{
    struct api_file file = {0};
    int r = json_bind(a, v, &file_table, &file, e);

    if (r == 0)
        *ret = file;
    return r;
}

static const struct json_field metrics_fields[] = {
    JSON_FIELD("cpu_count", JSON_AS_DOUBLE, JSON_REQUIRED, struct api_metrics, cpu_count),
    JSON_FIELD("cpu_used_pct", JSON_AS_DOUBLE, JSON_REQUIRED, struct api_metrics, cpu_used_pct),
    JSON_FIELD("mem_total_mib", JSON_AS_DOUBLE, JSON_REQUIRED, struct api_metrics, mem_total_mib),
    JSON_FIELD("mem_used_mib", JSON_AS_DOUBLE, JSON_REQUIRED, struct api_metrics, mem_used_mib),
    JSON_FIELD("timestamp", JSON_AS_I64, JSON_NULLABLE, struct api_metrics, timestamp_ms),
};
static const struct json_table metrics_table = JSON_TABLE(struct api_metrics, metrics_fields, 0);

int api_metrics_read(struct arena *a, const struct json *v, struct api_metrics *ret, struct err *e)
{
    struct api_metrics metrics = {0};
    int r = json_bind(a, v, &metrics_table, &metrics, e);

    if (r == 0)
        *ret = metrics;
    return r;
}

/* --- events --- */

static const struct json_name event_names[] = {
    {"init",               API_EVENT_INIT           },
    {"stdout",             API_EVENT_STDOUT         },
    {"stderr",             API_EVENT_STDERR         },
    {"result",             API_EVENT_RESULT         },
    {"execution_count",    API_EVENT_EXECUTION_COUNT},
    {"error",              API_EVENT_ERROR          },
    {"execution_complete", API_EVENT_COMPLETE       },
    {"ping",               API_EVENT_PING           },
    {"create",             API_EVENT_CREATE         },
    {"modify",             API_EVENT_MODIFY         },
    {"delete",             API_EVENT_DELETE         },
    {"move",               API_EVENT_MOVE           },
    {"overflow",           API_EVENT_OVERFLOW       },
    {NULL,                 0                        },
};

static int parse_event_type(struct arena *a, const struct json *v, const struct json_field *f,
                            void *ret, struct err *e)
{
    enum api_event_type *type = ret;

    if (v->type != JSON_STRING)
        return err_set(e, EBADMSG, "expected a string, got %s", json_type_name(v));
    *type = API_EVENT_OTHER;
    for (const struct json_name *n = event_names; n->name; n++)
        if (str_eq(v->string, str_of(n->name)))
            *type = (enum api_event_type)n->value;
    return 0;
}

/* The error fills the event itself, hence the offset 0. */
static const struct json_field error_fields[] = {
    OPTIONAL_STR("ename", struct api_event, error_name),
    OPTIONAL_STR("evalue", struct api_event, error_value),
    JSON_LIST("traceback", JSON_AS_ARRAY, JSON_NULLABLE, struct api_event, traceback,
              .max = TRACEBACK_MAX, .element = &string_element),
};
static const struct json_table error_table = JSON_TABLE(struct api_event, error_fields, 0);

static const struct json_field event_fields[] = {
    JSON_FIELD("type", JSON_AS_CUSTOM, JSON_REQUIRED, struct api_event, type,
               .parse = parse_event_type),
    OPTIONAL_STR("text", struct api_event, text),
    JSON_FIELD("timestamp", JSON_AS_I64, JSON_NULLABLE, struct api_event, timestamp_ms),
    JSON_FIELD("execution_time", JSON_AS_I64, JSON_NULLABLE, struct api_event, execution_time_ms),
    JSON_FIELD("execution_count", JSON_AS_U32, JSON_NULLABLE, struct api_event, execution_count),
    JSON_FIELD("continues", JSON_AS_BOOL, JSON_NULLABLE, struct api_event, continues),
    JSON_FIELD("unfinished", JSON_AS_BOOL, JSON_NULLABLE, struct api_event, unfinished),
    JSON_FIELD("results", JSON_AS_RAW, JSON_NULLABLE, struct api_event, results),
    JSON_FIELD("display", JSON_AS_RAW, JSON_NULLABLE, struct api_event, display),
    {"error", JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &error_table},
    OPTIONAL_STR("path", struct api_event, path),
    OPTIONAL_STR("from", struct api_event, from),
    JSON_FIELD("directory", JSON_AS_BOOL, JSON_NULLABLE, struct api_event, directory),
};
static const struct json_table event_table = JSON_TABLE(struct api_event, event_fields, 0);

int api_event_read(struct arena *a, const struct json *v, struct api_event *ret, struct err *e)
{
    struct api_event event = {0};
    int r = json_bind(a, v, &event_table, &event, e);

    if (r == 0)
        *ret = event;
    return r;
}
