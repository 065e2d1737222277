/* files.c - files and directories of a sandbox, by their paths; uploads are in upload.c. */
#include <errno.h>
#include <stdio.h>

#include "api/execd.h"
#include "sdk.h"

enum { FILES_ARENA_BYTES_MAX = 64 << 20 };

static int execd_call(struct osb_sandbox *sb, enum http_method method, struct target *t,
                      const struct buf *body, int body_error, struct osb_answer **ret)
{
    struct simple s = {NULL, method, t, body, body_error};
    int r = sandbox_site(sb, OSB_PORT_EXECD, &s.site);

    if (r < 0) {
        target_done(t);
        return r;
    }
    return simple_call(sb->client, &s, ret);
}

static void target_paths(struct target *t, const char *route, const char *const *paths, size_t n)
{
    target_init(t, route);
    for (size_t i = 0; i < n; i++)
        target_query(t, "path", paths[i]);
}

/* --- what is there --- */

static int files_answer(struct osb_sandbox *sb, struct target *t, struct osb_answer **ret)
{
    struct osb_answer *a = NULL;
    int r = execd_call(sb, HTTP_GET, t, NULL, 0, &a);

    if (r == 0)
        r = answer_bind_files(sb->client, a);
    if (r == 0)
        *ret = a;
    else
        osb_answer_free(a);
    return r;
}

int osb_files_info(struct osb_sandbox *sandbox, const char *const *paths, size_t path_count,
                   struct osb_answer **ret_answer)
{
    struct target t;

    target_paths(&t, "/files/info", paths, path_count);
    return files_answer(sandbox, &t, ret_answer);
}

int osb_files_list(struct osb_sandbox *sandbox, const char *path, unsigned depth,
                   struct osb_answer **ret_answer)
{
    struct target t;

    target_paths(&t, "/directories/list", &path, 1);
    if (depth)
        target_query_i64(&t, "depth", depth);
    return files_answer(sandbox, &t, ret_answer);
}

int osb_files_search(struct osb_sandbox *sandbox, const char *path, const char *pattern,
                     struct osb_answer **ret_answer)
{
    struct target t;

    target_paths(&t, "/files/search", &path, 1);
    target_query(&t, "pattern", pattern);
    return files_answer(sandbox, &t, ret_answer);
}

/* --- reading --- */

static int read_file(struct osb_sandbox *sb, const char *path, const struct osb_read *options,
                     osb_sink_fn *sink, void *user, struct osb_answer **ret)
{
    OPTIONS_COPY(struct osb_read, o, options);
    struct osb_pair range = {"Range", o.range};
    struct osb_request req = {OSB_REQUEST,       .sandbox = sb,
                              .headers = &range, .header_count = o.range ? 1 : 0,
                              .sink = sink,      .user = user};
    struct target t;
    int r;

    target_paths(&t, "/files/download", &path, 1);
    if (o.first_line)
        target_query_i64(&t, "offset", o.first_line);
    if (o.line_count)
        target_query_i64(&t, "limit", o.line_count);
    req.path = t.text.p;
    r = t.error < 0 ? fail(sb->client, -t.error, "the path of a file is too long")
                    : osb_request(sb->client, &req, ret);
    target_done(&t);
    return r;
}

int osb_file_read(struct osb_sandbox *sandbox, const char *path, const struct osb_read *read,
                  osb_sink_fn *sink, void *user)
{
    return read_file(sandbox, path, read, sink, user, NULL);
}

int osb_file_get(struct osb_sandbox *sandbox, const char *path, const struct osb_read *read,
                 struct osb_answer **ret_answer)
{
    return read_file(sandbox, path, read, NULL, NULL, ret_answer);
}

int osb_archive_read(struct osb_sandbox *sandbox, const char *path, osb_sink_fn *sink, void *user)
{
    struct osb_pair query = {"path", path};
    struct osb_request req = {OSB_REQUEST,        .path = "/directories/download",
                              .sandbox = sandbox, .query = &query,
                              .query_count = 1,   .sink = sink,
                              .user = user};

    return osb_request(sandbox->client, &req, NULL);
}

int osb_archive_write(struct osb_sandbox *sandbox, const char *path, osb_source_fn *source,
                      void *user)
{
    struct osb_pair query = {"path", path};
    struct osb_request req = {
        OSB_REQUEST,     .method = "POST", .path = "/directories/upload",       .sandbox = sandbox,
        .query = &query, .query_count = 1, .content_type = "application/x-tar", .source = source,
        .user = user};

    return osb_request(sandbox->client, &req, NULL);
}

/* --- changing --- */

static int remove_paths(struct osb_sandbox *sb, const char *route, const char *const *paths,
                        size_t n)
{
    struct target t;

    target_paths(&t, route, paths, n);
    return execd_call(sb, HTTP_DELETE, &t, NULL, 0, NULL);
}

int osb_files_remove(struct osb_sandbox *sandbox, const char *const *paths, size_t path_count)
{
    return remove_paths(sandbox, "/files", paths, path_count);
}

int osb_directories_remove(struct osb_sandbox *sandbox, const char *const *paths, size_t path_count)
{
    return remove_paths(sandbox, "/directories", paths, path_count);
}

static int post(struct osb_sandbox *sb, const char *route, const struct buf *body, int body_error,
                struct osb_answer **ret)
{
    struct target t;

    target_init(&t, route);
    return execd_call(sb, HTTP_POST, &t, body, body_error, ret);
}

static int post_permissions(struct osb_sandbox *sb, const char *route,
                            const struct osb_permission *list, size_t count)
{
    AUTO_ARENA(a, FILES_ARENA_BYTES_MAX);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct api_permission *out = arena_new_array(&a, struct api_permission, count);
    int r = -ENOMEM;

    for (size_t i = 0; out && i < count; i++)
        out[i] = (struct api_permission){str_or_empty(list[i].path), str_or_empty(list[i].owner),
                                         str_or_empty(list[i].group), list[i].mode};
    if (out)
        r = api_permissions_write(&body, out, count);
    return post(sb, route, &body, r, NULL);
}

int osb_directories_make(struct osb_sandbox *sandbox, const struct osb_permission *directories,
                         size_t count)
{
    return post_permissions(sandbox, "/directories", directories, count);
}

int osb_files_chmod(struct osb_sandbox *sandbox, const struct osb_permission *permissions,
                    size_t count)
{
    return post_permissions(sandbox, "/files/permissions", permissions, count);
}

int osb_files_move(struct osb_sandbox *sandbox, const struct osb_move *moves, size_t count)
{
    AUTO_ARENA(a, FILES_ARENA_BYTES_MAX);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct api_move *out = arena_new_array(&a, struct api_move, count);
    int r = -ENOMEM;

    for (size_t i = 0; out && i < count; i++)
        out[i] = (struct api_move){str_or_empty(moves[i].from), str_or_empty(moves[i].to)};
    if (out)
        r = api_moves_write(&body, out, count);
    return post(sandbox, "/files/mv", &body, r, NULL);
}

int osb_files_replace(struct osb_sandbox *sandbox, const struct osb_replace *replaces, size_t count,
                      struct osb_answer **ret_answer)
{
    AUTO_ARENA(a, FILES_ARENA_BYTES_MAX);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct api_replace *out = arena_new_array(&a, struct api_replace, count);
    int r = -ENOMEM;

    for (size_t i = 0; out && i < count; i++)
        out[i] =
            (struct api_replace){str_or_empty(replaces[i].path), str_or_empty(replaces[i].old_text),
                                 str_or_empty(replaces[i].new_text)};
    if (out)
        r = api_replaces_write(&body, out, count);
    return post(sandbox, "/files/replace?verbose=true", &body, r, ret_answer);
}
