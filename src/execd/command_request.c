#include "execd/command_request.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_bind.h"
#include "execd/answer.h"
#include "execd/envs.h"
#include "execd/path.h"
#include "execd/users.h"

struct body {
    struct str command, cwd;
    bool background, has_uid, has_gid;
    int64_t timeout;
    uint32_t uid, gid;
    struct json_pair *envs;
    size_t envs_count;
};

static const struct json_field body_fields[] = {
    JSON_FIELD("command", JSON_AS_STR, JSON_NULLABLE, struct body, command, .min = 0),
    JSON_FIELD("cwd", JSON_AS_STR, JSON_NULLABLE, struct body, cwd, .min = 0),
    JSON_FIELD("background", JSON_AS_BOOL, JSON_NULLABLE, struct body, background, .min = 0),
    JSON_FIELD("timeout", JSON_AS_I64, JSON_NULLABLE, struct body, timeout, .min = 0),
    JSON_FIELD("uid", JSON_AS_U32, JSON_NULLABLE, struct body, uid,
               .seen_at = JSON_SEEN(struct body, has_uid)),
    JSON_FIELD("gid", JSON_AS_U32, JSON_NULLABLE, struct body, gid,
               .seen_at = JSON_SEEN(struct body, has_gid)),
    JSON_LIST("envs", JSON_AS_MAP, JSON_NULLABLE, struct body, envs, .min = 0),
};
static const struct json_table body_table = JSON_TABLE(struct body, body_fields, 0);

/* --- what can be said about the body alone --- */

static bool has_nul(struct str s)
{
    return str_find(s, '\0') < s.n;
}

static int check_envs(const struct body *b, struct err *e)
{
    for (size_t i = 0; i < b->envs_count; i++)
        if (!envs_is_name(b->envs[i].key) || has_nul(b->envs[i].value))
            return err_set(e, EINVAL, "envs: '%.*s' cannot be a variable",
                           str_arg_n(b->envs[i].key), b->envs[i].key.p);
    return 0;
}

/* The words of the library that clients of this API know. */
#define FAILED_TAG(field, tag)                                                                     \
    "Key: 'RunCommandRequest." field "' Error:Field validation for '" field                        \
    "' failed on the '" tag "' tag"

static int check_body(const struct body *b, struct err *e)
{
    if (b->command.n == 0)
        return err_set(e, EINVAL, FAILED_TAG("Command", "required"));
    if (has_nul(b->command))
        return err_set(e, EINVAL, "command: it holds a NUL byte, which no program can be given");
    if (b->timeout < 0)
        return err_set(e, EINVAL, FAILED_TAG("TimeoutMs", "gte"));
    if (b->has_gid && !b->has_uid)
        return err_set(e, EINVAL, "uid is required when gid is provided");
    if ((b->has_uid && b->uid == UINT32_MAX) || (b->has_gid && b->gid == UINT32_MAX))
        return err_set(e, EINVAL, "uid and gid: %u is nobody's", UINT32_MAX);
    return check_envs(b, e);
}

/* --- the directory --- */

static int check_directory(struct str cwd, const char *path, struct err *e)
{
    struct stat st;
    int r = stat(path, &st) < 0 ? -errno : 0;

    if (r == -ENOENT)
        return err_set(e, ENOENT,
                       "working directory does not exist: %.*s: stat %s: no such file or directory",
                       STR_ARG(cwd), path);
    if (r < 0)
        return err_sys(e, -r, "cannot access working directory \"%.*s\"", STR_ARG(cwd));
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ENOTDIR, "working directory path is not a directory: %.*s", STR_ARG(cwd));
    return 0;
}

/* The variables of a path may also come from the EXECD_ENVS file and from the request. */
static int read_directory(struct arena *a, struct str cwd, const char *const *env,
                          const char **ret_path, struct err *e)
{
    AUTO_BUF(path, EXECD_PATH_BYTES_MAX);
    int r;

    if (cwd.n == 0)
        return 0;
    r = path_resolve(cwd, env, &path, e);
    if (r < 0)
        return err_wrap(e, r, "cannot resolve working directory \"%.*s\"", STR_ARG(cwd));
    r = check_directory(cwd, path.p, e);
    if (r < 0)
        return r;
    *ret_path = arena_strdup(a, buf_str(&path));
    return *ret_path ? 0 : err_set(e, ENOMEM, "no memory");
}

/* --- the user --- */

/* A number nobody has is its own group, and in no other: 0 would be root's. */
static int read_user(const struct body *b, struct command_request *ret, struct err *e)
{
    struct user u = {.uid = b->uid, .gid = b->has_gid ? b->gid : b->uid};
    size_t count = 0;
    int r;

    if (!b->has_uid)
        return 0;
    r = user_by_uid(b->uid, &u);
    if (b->has_gid)
        u.gid = b->gid;
    if (r >= 0) {
        r = user_groups(&u, &ret->groups, &count);
        if (r < 0)
            return err_sys(e, -r, "groups of uid %u", b->uid);
    }
    ret->spec.user = (struct child_user){true, b->uid, u.gid, ret->groups, count};
    return 0;
}

/* --- all of it --- */

static int find_shell(struct arena *a, const char *const *ours, const char **ret)
{
    struct str path = path_env(ours, STR("PATH"));
    AUTO_BUF(shell, EXECD_PATH_BYTES_MAX);

    if (!command_find_program(path, "bash", &shell) && !command_find_program(path, "sh", &shell))
        (void)buf_add(&shell, STR("/bin/sh")); /* which will say that it is not there */
    *ret = arena_strdup(a, buf_str(&shell));
    return *ret ? 0 : -ENOMEM;
}

static int read_rest(const struct body *b, struct arena *a, const char *const *ours,
                     struct command_request *ret, struct err *e)
{
    AUTO_BUF(file, ENVS_FILE_BYTES_MAX);
    int r;

    envs_read_file(ours, &file);
    r = envs_make(a, ours, buf_str(&file), b->envs, b->envs_count, &ret->spec.env);
    if (r >= 0)
        r = find_shell(a, ours, &ret->spec.shell);
    if (r < 0)
        return err_sys(e, -r, "environment");
    r = read_directory(a, b->cwd, ret->spec.env, &ret->spec.cwd, e);
    if (r >= 0)
        r = read_user(b, ret, e);
    return r;
}

int command_request_read(struct http_req *req, struct arena *a, const char *const *ours,
                         struct command_request *ret)
{
    struct body b = {0};
    struct err e = {0};
    int r = answer_read_body(req, a, &body_table, &b, &e);

    if (r < 0) {
        answer_error(req, 400, "INVALID_REQUEST_BODY",
                     "error parsing request, MAYBE invalid body format. %s", e.msg);
        return r;
    }
    *ret = (struct command_request){.text = b.command, .background = b.background};
    ret->spec.timeout_ms = (uint64_t)b.timeout;
    r = check_body(&b, &e);
    if (r >= 0)
        r = read_rest(&b, a, ours, ret, &e);
    if (r < 0)
        answer_error(req, 400, "INVALID_REQUEST_BODY", "invalid request, validation error %s",
                     e.msg);
    return r;
}
