/* tools_file.c - tools for files and directories. */
#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/utf8.h"
#include "mcp/tools.h"

/* --- encodings --- */

enum encoding { ENCODING_UTF8, ENCODING_BASE64 };

static int read_encoding(struct call *c, enum encoding *ret)
{
    struct str name = call_str(c, "encoding");

    if (!name.n || str_eq_nocase(name, STR("utf-8")) || str_eq_nocase(name, STR("utf8")))
        *ret = ENCODING_UTF8;
    else if (str_eq_nocase(name, STR("base64")))
        *ret = ENCODING_BASE64;
    else
        return err_set(&c->why, EINVAL, "encoding: expected utf-8 or base64, got '%.*s'",
                       (int)min_size(name.n, 40), name.p);
    return 0;
}

/* 755 means 0755, as people write it. */
static int read_mode(struct call *c, int64_t digits, unsigned *ret)
{
    unsigned mode = 0;
    char text[24];

    (void)snprintf(text, sizeof(text), "%lld", (long long)digits);
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '7' || mode > 0777)
            return err_set(&c->why, EINVAL, "mode: expected octal digits such as 644, got %s",
                           text);
        mode = mode * 8 + (unsigned)(*p - '0');
    }
    *ret = mode;
    return 0;
}

/* --- file_read --- */

static const struct field read_fields[] = {
    FIELD_SANDBOX_ID,
    {"path",     FIELD_STRING, true,          "Absolute path"                              },
    {"encoding", FIELD_STRING, false,         "utf-8, or base64 for files that are no text", "\"utf-8\""},
    {"range_header",          FIELD_STRING,         false, "A part of it, such as bytes=0-1023"                                },
    FIELD_CONNECT,
};

static int write_cut(struct call *c, struct str text, struct json_writer *w)
{
    struct str part = outputs_part(text, 0, c->mcp->options->output_bytes);
    const char *uri = NULL;
    int r = 0;

    json_member_string(w, STR("content"), part);
    if (part.n == text.n)
        return 0;
    json_member_bool(w, STR("truncated"), true);
    json_member_u64(w, STR("total_bytes"), text.n);
    if (text.n <= OUTPUT_BYTES_MAX)
        r = call_link(c, call_text(c, "path"), text, &uri);
    if (r == 0 && uri)
        json_member_string(w, STR("whole_content"), str_of(uri));
    return r;
}

static int write_content(struct call *c, struct str data, enum encoding encoding,
                         struct json_writer *w)
{
    AUTO_BUF(text, MCP_REPLY_BYTES_MAX);
    int r;

    if (encoding == ENCODING_UTF8) {
        if (!utf8_valid(data))
            return err_set(&c->why, EILSEQ,
                           "the file is not UTF-8 text at byte %zu; use encoding base64",
                           utf8_prefix(data));
        return write_cut(c, data, w);
    }
    r = buf_reserve(&text, BASE64_TEXT_MAX(data.n));
    if (r < 0)
        return r;
    buf_claim(&text, base64_encode(data, BASE64_STD, text.p));
    return write_cut(c, buf_str(&text), w);
}

static int run_read(struct call *c, struct json_writer *w)
{
    const struct osb_read part = {OSB_READ, .range = call_text(c, "range_header")};
    struct osb_answer *answer = NULL;
    struct osb_sandbox *sandbox;
    enum encoding encoding;
    int r = read_encoding(c, &encoding);

    if (r == 0)
        r = call_box(c, &sandbox);
    if (r == 0)
        r = osb_file_get(sandbox, call_text(c, "path"), &part, &answer);
    if (r == 0) {
        size_t n;
        const char *data = osb_answer_body(answer, &n);

        json_write_object(w);
        json_member_string(w, STR("path"), call_str(c, "path"));
        r = write_content(c, str_make(data, n), encoding, w);
        json_write_object_end(w);
    }
    osb_answer_free(answer);
    return r;
}

/* --- file_write --- */

static const struct field write_fields[] = {
    FIELD_SANDBOX_ID,
    {"path",                                      FIELD_STRING, true,      "Absolute path; directories above it are made"    },
    {.name = "content",
      .type = FIELD_STRING,
      .required = true,
      .any_bytes = true,
      .about = "All of the file"},
    {"encoding",                                           FIELD_STRING,                                              false, "Of the content: utf-8 or base64", "\"utf-8\""},
    {"mode",                                FIELD_INTEGER,                                            false,                                                "Permissions as octal digits, such as 644",                                                      "755", 0, 7777},
    {"owner", FIELD_STRING,        false,"User"},
    {"group",                                     FIELD_STRING,                                     false,                                  "Group"                                                                                                             },
    FIELD_CONNECT,
};

static int run_write_file(struct call *c, struct json_writer *w)
{
    struct str content = call_str(c, "content");
    AUTO_BUF(bytes, RPC_MESSAGE_BYTES_MAX);
    struct osb_upload upload = {
        .path = call_text(c, "path"),
        .owner = call_text(c, "owner"),
        .group = call_text(c, "group"),
    };
    struct osb_sandbox *sandbox;
    enum encoding encoding;
    size_t n = 0;
    int r = read_encoding(c, &encoding);

    if (r == 0)
        r = read_mode(c, call_int(c, "mode"), &upload.mode);
    if (r == 0 && encoding == ENCODING_BASE64) {
        r = buf_reserve(&bytes, BASE64_DATA_MAX(content.n) + 1);
        if (r == 0 && base64_decode(content, BASE64_STD, bytes.p, bytes.cap, &n) < 0)
            r = err_set(&c->why, EINVAL, "content: this is not base64");
        if (r == 0)
            content = str_make(bytes.p, n);
    }
    if (r == 0)
        r = call_box(c, &sandbox);
    if (r < 0)
        return r;
    upload.data = content.p;
    upload.data_bytes = content.n;
    r = osb_files_upload(sandbox, &upload, 1);
    if (r == 0)
        tools_write_status(w, "written");
    return r;
}

/* --- deleting, making, moving --- */

static const struct field paths_fields[] = {
    FIELD_SANDBOX_ID,
    {"paths", FIELD_STRINGS, true, "Absolute paths"},
    FIELD_CONNECT,
};

static int remove_with(struct call *c, struct json_writer *w,
                       int (*fn)(struct osb_sandbox *, const char *const *, size_t))
{
    struct osb_sandbox *sandbox;
    size_t n = 0;
    const char **paths = call_strings(c, call_arg(c, "paths"), &n);
    int r;

    if (!paths)
        return err_set(&c->why, EINVAL, "paths: expected at least one path");
    r = call_box(c, &sandbox);
    if (r == 0)
        r = fn(sandbox, (const char *const *)paths, n);
    if (r == 0)
        tools_write_status(w, "deleted");
    return r;
}

static int run_delete(struct call *c, struct json_writer *w)
{
    return remove_with(c, w, osb_files_remove);
}

static int run_delete_directories(struct call *c, struct json_writer *w)
{
    return remove_with(c, w, osb_directories_remove);
}

static const char *text_of(const struct json *entry, struct str key)
{
    struct str s = STR_NONE;

    (void)json_to_str(json_get(entry, key), &s);
    return s.p;
}

static const struct field directory_fields[] = {
    {"path", FIELD_STRING,  true,   "Absolute path"              },
    {"mode", FIELD_INTEGER, false,  "Permissions as octal digits", "755", 0, 7777},
    {"owner",     FIELD_STRING,              false,                    "User"                                          },
    {"group", FIELD_STRING,false,"Group"},
};
static const struct field make_fields[] = {
    FIELD_SANDBOX_ID,
    {.name = "entries",
      .type = FIELD_OBJECTS,
      .required = true,
      .about = "Directories to make",
      .inner = SCHEMA(directory_fields)},
    FIELD_CONNECT,
};

static int run_make_directories(struct call *c, struct json_writer *w)
{
    const struct json *entries = call_arg(c, "entries");
    struct osb_permission *all =
        arena_new_array(&c->message->arena, struct osb_permission, json_count(entries) + 1);
    struct osb_sandbox *sandbox;
    size_t n = 0;
    int r = call_box(c, &sandbox);

    if (!all)
        return -ENOMEM;
    json_each(item, entries)
    {
        int64_t mode = 755;

        (void)json_to_i64(json_get(item, STR("mode")), &mode);
        all[n] = (struct osb_permission){
            .path = text_of(item, STR("path")),
            .owner = text_of(item, STR("owner")),
            .group = text_of(item, STR("group")),
        };
        if (r == 0)
            r = read_mode(c, mode, &all[n++].mode);
    }
    if (r == 0)
        r = osb_directories_make(sandbox, all, n);
    if (r == 0)
        tools_write_status(w, "created");
    return r;
}

static const struct field pair_fields[] = {
    {"source",      FIELD_STRING, true, "Absolute path"},
    {"destination", FIELD_STRING, true, "Absolute path"},
};
static const struct field move_fields[] = {
    FIELD_SANDBOX_ID,
    {.name = "entries",
      .type = FIELD_OBJECTS,
      .required = true,
      .about = "What goes where",
      .inner = SCHEMA(pair_fields)},
    FIELD_CONNECT,
};

static int run_move(struct call *c, struct json_writer *w)
{
    const struct json *entries = call_arg(c, "entries");
    struct osb_move *all =
        arena_new_array(&c->message->arena, struct osb_move, json_count(entries) + 1);
    struct osb_sandbox *sandbox;
    size_t n = 0;
    int r = all ? call_box(c, &sandbox) : -ENOMEM;

    if (r < 0)
        return r;
    json_each(item, entries) all[n++] =
        (struct osb_move){text_of(item, STR("source")), text_of(item, STR("destination"))};
    r = osb_files_move(sandbox, all, n);
    if (r == 0)
        tools_write_status(w, "moved");
    return r;
}

static const struct field change_fields[] = {
    {"path",        FIELD_STRING, true, "Absolute path"   },
    {"old_content", FIELD_STRING, true, "Text to look for"},
    {"new_content", FIELD_STRING, true, "What replaces it"},
};
static const struct field replace_fields[] = {
    FIELD_SANDBOX_ID,
    {.name = "entries",
      .type = FIELD_OBJECTS,
      .required = true,
      .about = "Changes",
      .inner = SCHEMA(change_fields)},
    FIELD_CONNECT,
};

static int run_replace(struct call *c, struct json_writer *w)
{
    const struct json *entries = call_arg(c, "entries");
    struct osb_replace *all =
        arena_new_array(&c->message->arena, struct osb_replace, json_count(entries) + 1);
    struct osb_answer *answer = NULL;
    struct osb_sandbox *sandbox;
    size_t n = 0;
    int r = all ? call_box(c, &sandbox) : -ENOMEM;

    if (r < 0)
        return r;
    json_each(item, entries) all[n++] =
        (struct osb_replace){text_of(item, STR("path")), text_of(item, STR("old_content")),
                             text_of(item, STR("new_content"))};
    r = osb_files_replace(sandbox, all, n, &answer);
    if (r < 0)
        return r;
    json_write_object(w);
    json_write_key(w, STR("result"));
    json_write_array(w);
    for (size_t i = 0; i < osb_answer_count(answer, ""); i++) {
        const char *path = osb_answer_key(answer, "", i);
        AUTO_BUF(at, RPC_MESSAGE_BYTES_MAX);

        (void)buf_addf(&at, "\"%s\".replacedCount", path);
        json_write_object(w);
        json_member_string(w, STR("path"), str_of(path));
        json_member_i64(w, STR("replaced_count"), osb_answer_int(answer, at.p, 0));
        json_write_object_end(w);
    }
    json_write_array_end(w);
    json_write_object_end(w);
    osb_answer_free(answer);
    return 0;
}

/* --- looking --- */

static const struct field search_fields[] = {
    FIELD_SANDBOX_ID,
    {"path",    FIELD_STRING, true, "Directory to begin at"},
    {"pattern", FIELD_STRING, true, "Such as *.py"         },
    FIELD_CONNECT,
};
static const struct field dir_fields[] = {
    FIELD_SANDBOX_ID,
    {"path",             FIELD_STRING, true, "Directory"},
    { "depth", FIELD_INTEGER, false,             "How many levels",          "1", 1, 64},
    FIELD_CONNECT,
};

/* As many entries as an answer may hold. */
static int write_entries(struct call *c, const struct osb_answer *answer, struct json_writer *w)
{
    size_t room = c->mcp->options->output_bytes, n = osb_file_count(answer), i = 0;

    json_write_object(w);
    json_write_key(w, STR("result"));
    json_write_array(w);
    for (; i < n; i++) {
        AUTO_ARENA(arena, RPC_MESSAGE_BYTES_MAX);
        const char *text = osb_file_json(osb_file_at(answer, i));
        struct json *v;

        if (strlen(text) > room || json_parse(&arena, str_of(text), NULL, &v, NULL) < 0)
            break;
        room -= strlen(text);
        tools_write_snake(w, v);
    }
    json_write_array_end(w);
    if (i < n) {
        json_member_bool(w, STR("truncated"), true);
        json_member_u64(w, STR("total"), n);
    }
    json_write_object_end(w);
    return 0;
}

static int run_search(struct call *c, struct json_writer *w)
{
    struct osb_answer *answer = NULL;
    struct osb_sandbox *sandbox;
    int r = call_box(c, &sandbox);

    if (r == 0)
        r = osb_files_search(sandbox, call_text(c, "path"), call_text(c, "pattern"), &answer);
    if (r == 0)
        r = write_entries(c, answer, w);
    osb_answer_free(answer);
    return r;
}

static int run_list(struct call *c, struct json_writer *w)
{
    struct osb_answer *answer = NULL;
    struct osb_sandbox *sandbox;
    int r = call_box(c, &sandbox);

    if (r == 0)
        r = osb_files_list(sandbox, call_text(c, "path"), (unsigned)call_int(c, "depth"), &answer);
    if (r == 0)
        r = write_entries(c, answer, w);
    osb_answer_free(answer);
    return r;
}

static const struct tool tools[] = {
    {"file_read",               "Read a file. Of a long one only the beginning: use range_header for parts.",
     TOOL_READS,                                                                                                                            SCHEMA(read_fields),    run_read              },
    {"file_write",              "Write a file, which is made or replaced.",                                   TOOL_DESTROYS | TOOL_REPEATS,
     SCHEMA(write_fields),                                                                                                                                          run_write_file        },
    {"file_delete",             "Delete files.",                                                              TOOL_DESTROYS,                SCHEMA(paths_fields),   run_delete            },
    {"file_search",             "Find files below a directory by a pattern of their names.",                  TOOL_READS,
     SCHEMA(search_fields),                                                                                                                                         run_search            },
    {"file_list",               "What is in a directory.",                                                    TOOL_READS,                   SCHEMA(dir_fields),     run_list              },
    {"file_create_directories", "Make directories, also those above them.",                                   TOOL_REPEATS,
     SCHEMA(make_fields),                                                                                                                                           run_make_directories  },
    {"file_delete_directories", "Delete directories and all that is in them.",                                TOOL_DESTROYS,
     SCHEMA(paths_fields),                                                                                                                                          run_delete_directories},
    {"file_move",               "Move or rename files and directories.",                                      TOOL_DESTROYS,                SCHEMA(move_fields),
     run_move                                                                                                                                                                             },
    {"file_replace_contents",   "Replace text in files.",                                                     TOOL_DESTROYS,                SCHEMA(replace_fields),
     run_replace                                                                                                                                                                          },
};
const struct tool_group file_tools = {tools, ARRAY_LEN(tools)};
