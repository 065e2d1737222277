#include "execd/command/command_request.h"

#include <errno.h>
#include <unistd.h>

#include "base/json_bind.h"
#include "execd/command/workdir.h"
#include "execd/core/answer.h"
#include "execd/core/envs.h"
#include "execd/core/path.h"
#include "execd/core/users.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct body {
    struct str command, cwd, input;
    bool background, has_uid, has_gid, has_input, input_open;
    int64_t timeout;
    uint32_t uid, gid;
    struct json_pair *envs;
    size_t envs_count;
    struct str *argv;
    size_t argv_count;
};

static const struct json_field argv_element = {.as = JSON_AS_STR};

static const struct json_field body_fields[] = {
    JSON_LIST("argv", JSON_AS_ARRAY, JSON_NULLABLE, struct body, argv, .element = &argv_element),
    JSON_FIELD("command", JSON_AS_STR, JSON_NULLABLE, struct body, command, .min = 0),
    JSON_FIELD("cwd", JSON_AS_STR, JSON_NULLABLE, struct body, cwd, .min = 0),
    JSON_FIELD("background", JSON_AS_BOOL, JSON_NULLABLE, struct body, background, .min = 0),
    JSON_FIELD("timeout", JSON_AS_I64, JSON_NULLABLE, struct body, timeout, .min = 0),
    JSON_FIELD("uid", JSON_AS_U32, JSON_NULLABLE, struct body, uid,
               .seen_at = JSON_SEEN(struct body, has_uid)),
    JSON_FIELD("gid", JSON_AS_U32, JSON_NULLABLE, struct body, gid,
               .seen_at = JSON_SEEN(struct body, has_gid)),
    JSON_FIELD("stdin", JSON_AS_STR, JSON_NULLABLE, struct body, input,
               .seen_at = JSON_SEEN(struct body, has_input)),
    JSON_FIELD("stdin_open", JSON_AS_BOOL, JSON_NULLABLE, struct body, input_open, .min = 0),
    JSON_LIST("envs", JSON_AS_MAP, JSON_NULLABLE, struct body, envs, .min = 0),
};
static const struct json_table body_table = JSON_TABLE(struct body, body_fields, 0);

/* --- checks of the body alone --- */

/* The wording of the validation library that clients of this API know. */
#define FAILED_TAG(field, tag)                                                                     \
    "Key: 'RunCommandRequest." field "' Error:Field validation for '" field                        \
    "' failed on the '" tag "' tag"

static int check_argv(const struct body *b, struct err *e)
{
    if (b->command.n > 0)
        return err_set(e, EINVAL, "command and argv: one of them, not both");
    if (b->argv[0].n == 0)
        return err_set(e, EINVAL, "argv: expected the name of a program first");
    for (size_t i = 0; i < b->argv_count; i++)
        if (str_has_nul(b->argv[i]))
            return err_set(e, EINVAL, "argv: it holds a NUL byte, which no program can be given");
    return 0;
}

static int check_body(const struct body *b, struct err *e)
{
    if (b->argv_count > 0 && check_argv(b, e) < 0)
        return -e->code;
    if (b->command.n == 0 && b->argv_count == 0)
        return err_set(e, EINVAL, FAILED_TAG("Command", "required"));
    if (str_has_nul(b->command))
        return err_set(e, EINVAL, "command: it holds a NUL byte, which no program can be given");
    if (b->timeout < 0)
        return err_set(e, EINVAL, FAILED_TAG("TimeoutMs", "gte"));
    if (b->has_gid && !b->has_uid)
        return err_set(e, EINVAL, "uid is required when gid is provided");
    if ((b->has_uid && b->uid == UINT32_MAX) || (b->has_gid && b->gid == UINT32_MAX))
        return err_set(e, EINVAL, "uid and gid: %u is not a valid id", UINT32_MAX);
    return envs_check(b->envs, b->envs_count, e);
}

/* --- the user --- */

/* A uid without an entry in /etc/passwd gets its own number as gid and no other group: gid 0 would
 * be root's. */
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

/* --- the whole request --- */

int command_find_shell(struct arena *a, const char *const *env, const char **ret, struct err *e)
{
    struct str path = path_env(env, STR("PATH"));
    AUTO_BUF(shell, EXECD_PATH_BYTES_MAX);

    if (!path.p)
        path = STR(DEFAULT_PATH);
    if (!command_find_program(path, "bash", &shell) && !command_find_program(path, "sh", &shell))
        return err_set(
            e, ENOEXEC,
            "cannot start: no shell. neither bash nor sh is on PATH; argv runs a program "
            "without one");
    *ret = arena_strdup(a, buf_str(&shell));
    return *ret ? 0 : err_set(e, ENOMEM, "no memory");
}

/* Sets the argument vector and the program's file: the first word itself if it contains a '/', else
 * looked up in the command's own PATH. If it is not found, exec reports that. */
static int read_argv(const struct body *b, struct arena *a, struct command_request *ret)
{
    const char **argv = arena_new_array(a, const char *, b->argv_count + 1);
    AUTO_BUF(file, EXECD_PATH_BYTES_MAX);
    AUTO_BUF(text, COMMAND_BODY_BYTES_MAX);

    for (size_t i = 0; i < b->argv_count; i++)
        if (!argv || !(argv[i] = arena_strdup(a, b->argv[i])) ||
            buf_addf(&text, "%s%s", i ? " " : "", argv[i]) < 0)
            return -ENOMEM;
    if (strchr(argv[0], '/') ||
        !command_find_program(path_env(ret->spec.env, STR("PATH")), argv[0], &file))
        (void)buf_add(&file, b->argv[0]);
    ret->spec.argv = argv;
    ret->spec.shell = arena_strdup(a, buf_str(&file));
    ret->text = arena_str(a, buf_str(&text));
    return ret->spec.shell && ret->text.p ? 0 : -ENOMEM;
}

static int read_rest(const struct body *b, struct arena *a, const char *const *ours,
                     struct command_request *ret, struct err *e)
{
    AUTO_BUF(file, ENVS_FILES_BYTES_MAX);
    int r;

    envs_read_file(ours, &file);
    r = envs_make(a, ours, buf_str(&file), b->envs, b->envs_count, &ret->spec.env);
    if (r >= 0 && b->argv_count > 0)
        r = read_argv(b, a, ret);
    if (r < 0)
        return err_sys(e, -r, "environment");
    r = b->argv_count > 0 ? 0 : command_find_shell(a, ours, &ret->spec.shell, e);
    if (r < 0)
        return r;
    r = workdir_resolve(a, b->cwd, ret->spec.env, &ret->spec.cwd, e);
    if (r >= 0)
        r = read_user(b, ret, e);
    return r;
}

static int request_make(struct http_req *req, const struct body *b, struct arena *a,
                        const char *const *ours, struct command_request *ret)
{
    struct err e = {0};
    int r = check_body(b, &e);

    *ret = (struct command_request){.text = b->command, .background = b->background};
    ret->spec.timeout_ms = (uint64_t)b->timeout;
    ret->spec.has_input = b->has_input || b->input_open;
    ret->spec.input_open = b->input_open;
    ret->spec.input = b->input;
    if (r >= 0)
        r = read_rest(b, a, ours, ret, &e);
    if (r == -ENOEXEC)
        answer_error(req, 500, "RUNTIME_ERROR", "error running commands %s", e.msg);
    else if (r < 0)
        answer_invalid_body(req, e.msg);
    return r;
}

int command_request_read(struct http_req *req, struct arena *a, const char *const *ours,
                         struct command_request *ret)
{
    struct body b = {0};
    struct err e = {0};
    int r = answer_read_body(req, a, &body_table, &b, &e);

    if (r < 0) {
        answer_bad_body(req, e.msg);
        return r;
    }
    return request_make(req, &b, a, ours, ret);
}

int command_request_of(struct http_req *req, struct arena *a, const char *const *ours,
                       struct str text, bool background, struct command_request *ret)
{
    return request_make(req, &(struct body){.command = text, .background = background}, a, ours,
                        ret);
}
