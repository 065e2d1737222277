#include "execd/isolated/isolated_request.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/json_bind.h"
#include "base/mem.h"
#include "execd/core/answer.h"
#include "execd/core/envs.h"
#include "execd/core/path.h"
#include "execd/core/users.h"
#include "execd/shell/shell_script.h"
#include "execd/tree/fs.h"
#include "execd/tree/glob.h"

enum {
    RUN_TIMEOUT_S = 300,
    ENV_KEYS_MAX = 256,
    OVERLAYS_MAX = 16,
    WORKSPACE_MODE = 0755,
    REQUEST_ARENA_BYTES_MAX = 1 << 20,
    NAME_BYTES_MAX = 256,
};

/* --- the body of a new session --- */

struct overlay {
    struct str path;
    int mode;
    bool has_mode, persist;
};
struct bind {
    struct str source;
};

struct create_body {
    struct isolated_spec spec; /* first: nested JSON tables use offsets from here */
    bool has_mode, has_uid, has_gid, has_env;
    int mode, profile, env_mode;
    uint32_t uid, gid;
    struct str path, *writable;
    size_t writable_count;
    struct overlay *overlays;
    size_t overlays_count;
    struct bind *binds;
    size_t binds_count;
    int uid_mode;
};

static const struct json_name profile_names[] = {
    {"strict",   ISOLATED_STRICT  },
    {"balanced", ISOLATED_BALANCED},
    {NULL,       0                },
};
static const struct json_name mode_names[] = {
    {"rw",      BOX_RW     },
    {"overlay", BOX_OVERLAY},
    {"ro",      BOX_RO     },
    {NULL,      0          },
};
static const struct json_name env_names[] = {
    {"deny",  ISOLATED_ENV_DENY },
    {"allow", ISOLATED_ENV_ALLOW},
    {NULL,    0                 },
};
/* How the user is changed; user namespaces are not supported. */
static const struct json_name uid_mode_names[] = {
    {"setpriv", 0},
    {NULL,      0},
};
static const struct json_field string_element = {.as = JSON_AS_STR};

static const struct json_field persist_fields[] = {
    JSON_FIELD("enabled", JSON_AS_BOOL, JSON_NULLABLE, struct create_body, spec.persist, .min = 0),
    JSON_FIELD("retain_seconds", JSON_AS_U32, JSON_NULLABLE, struct create_body, spec.retain_s,
               .max = ISOLATED_SECONDS_MAX),
    JSON_FIELD("max_size_bytes", JSON_AS_U64, JSON_NULLABLE, struct create_body, spec.upper_bytes,
               .min = 1, .max = INT64_MAX),
};
static const struct json_table persist_table = JSON_TABLE(struct create_body, persist_fields, 0);

static const struct json_field workspace_fields[] = {
    JSON_FIELD("path", JSON_AS_STR, JSON_REQUIRED, struct create_body, path, .min = 1,
               .max = BOX_PATH_BYTES_MAX - 1),
    JSON_FIELD("mode", JSON_AS_ENUM, JSON_NULLABLE, struct create_body, mode, .names = mode_names,
               .seen_at = JSON_SEEN(struct create_body, has_mode)),
    {"persist", JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &persist_table},
};
static const struct json_table workspace_table =
    JSON_TABLE(struct create_body, workspace_fields, 0);

static const struct json_field env_fields[] = {
    JSON_FIELD("mode", JSON_AS_ENUM, JSON_NULLABLE, struct create_body, env_mode,
               .names = env_names),
    JSON_LIST("keys", JSON_AS_ARRAY, JSON_NULLABLE, struct create_body, spec.env_keys,
              .max = ENV_KEYS_MAX, .element = &string_element),
};
static const struct json_table env_table = JSON_TABLE(struct create_body, env_fields, 0);

static const struct json_field overlay_fields[] = {
    JSON_FIELD("path", JSON_AS_STR, JSON_REQUIRED, struct overlay, path, .min = 1,
               .max = BOX_PATH_BYTES_MAX - 1),
    JSON_FIELD("mode", JSON_AS_ENUM, JSON_NULLABLE, struct overlay, mode, .names = mode_names,
               .seen_at = JSON_SEEN(struct overlay, has_mode)),
    JSON_FIELD("persist", JSON_AS_BOOL, JSON_NULLABLE, struct overlay, persist, .min = 0),
};
static const struct json_table overlay_table = JSON_TABLE(struct overlay, overlay_fields, 0);
static const struct json_field overlay_element = {.as = JSON_AS_OBJECT, .table = &overlay_table};

static const struct json_field bind_fields[] = {
    JSON_FIELD("source", JSON_AS_STR, JSON_REQUIRED, struct bind, source, .min = 1,
               .max = BOX_PATH_BYTES_MAX - 1),
};
static const struct json_table bind_table = JSON_TABLE(struct bind, bind_fields, 0);
static const struct json_field bind_element = {.as = JSON_AS_OBJECT, .table = &bind_table};

/* All fields but the last may also be in the object "isolation", which then takes precedence. */
static const struct json_table isolation_table;
static const struct json_field create_fields[] = {
    JSON_FIELD("profile", JSON_AS_ENUM, JSON_NULLABLE, struct create_body, profile,
               .names = profile_names),
    JSON_FIELD("workspace", JSON_AS_OBJECT, JSON_NULLABLE, struct create_body, spec,
               .table = &workspace_table),
    JSON_LIST("overlays", JSON_AS_ARRAY, JSON_NULLABLE, struct create_body, overlays,
              .max = OVERLAYS_MAX, .element = &overlay_element),
    JSON_LIST("binds", JSON_AS_ARRAY, JSON_NULLABLE, struct create_body, binds,
              .max = ISOLATED_WRITABLE_MAX, .element = &bind_element),
    JSON_LIST("extra_writable", JSON_AS_ARRAY, JSON_NULLABLE, struct create_body, writable,
              .max = ISOLATED_WRITABLE_MAX, .element = &string_element),
    JSON_FIELD("share_net", JSON_AS_BOOL, JSON_NULLABLE, struct create_body, spec.share_net,
               .min = 0),
    JSON_FIELD("env_passthrough", JSON_AS_OBJECT, JSON_NULLABLE, struct create_body, spec,
               .table = &env_table, .seen_at = JSON_SEEN(struct create_body, has_env)),
    JSON_FIELD("uid", JSON_AS_U32, JSON_NULLABLE, struct create_body, uid, .max = UINT32_MAX - 1,
               .seen_at = JSON_SEEN(struct create_body, has_uid)),
    JSON_FIELD("gid", JSON_AS_U32, JSON_NULLABLE, struct create_body, gid, .max = UINT32_MAX - 1,
               .seen_at = JSON_SEEN(struct create_body, has_gid)),
    JSON_FIELD("uid_mode", JSON_AS_ENUM, JSON_NULLABLE, struct create_body, uid_mode,
               .names = uid_mode_names),
    JSON_FIELD("idle_timeout_seconds", JSON_AS_U32, JSON_NULLABLE, struct create_body, spec.idle_s,
               .max = ISOLATED_SECONDS_MAX),
    JSON_FIELD("isolation", JSON_AS_OBJECT, JSON_NULLABLE, struct create_body, spec,
               .table = &isolation_table),
};
static const struct json_table isolation_table = {create_fields, ARRAY_LEN(create_fields) - 1,
                                                  sizeof(struct create_body), 0};
static const struct json_table create_table = JSON_TABLE(struct create_body, create_fields, 0);

/* --- paths --- */

static bool is_within(struct str path, struct str prefix)
{
    while (prefix.n > 1 && prefix.p[prefix.n - 1] == '/')
        prefix.n--;
    return str_starts(path, prefix) &&
           (path.n == prefix.n || prefix.n == 1 || path.p[prefix.n] == '/');
}

/* Returns an absolute, clean path in the session's arena. */
static const char *read_path(struct isolated *s, struct str given, struct err *e)
{
    AUTO_BUF(path, BOX_PATH_BYTES_MAX - 1);
    const char *kept;

    if (path_resolve(given, (const char *const *)environ, &path, e) < 0)
        return NULL;
    kept = arena_strdup(&s->arena, buf_str(&path));
    if (!kept)
        (void)err_set(e, ENOMEM, "no memory for so many paths");
    return kept;
}

/* Paths that the session gets anew, or the whole file system. */
static bool is_taken(const char *path)
{
    static const char *const taken[] = {"/proc", "/sys", "/dev", "/run"};

    if (strcmp(path, "/") == 0 || strcmp(path, "/tmp") == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (is_within(str_of(path), str_of(taken[i])))
            return true;
    return false;
}

/* Resolves symlinks: none may lead to a path that is not allowed. */
static const char *real_path(struct isolated *s, const char *path, struct err *e)
{
    auto_free char *real = realpath(path, NULL);
    const char *kept = real ? arena_strdup(&s->arena, str_of(real)) : NULL;

    if (!real)
        (void)err_set(e, errno, "%s: %s", path, fs_text(errno));
    else if (!kept)
        (void)err_set(e, ENOMEM, "no memory for so many paths");
    return kept;
}

static int refuse_workspace(const char *path, struct err *e)
{
    return err_set(e, EINVAL, "workspace: %s cannot be a workspace", path);
}

/* Checks the opened directory: a process of the sandbox may have put a symlink there, and may
 * replace it at any time. */
static int check_workspace(const struct isolated *s, struct err *e)
{
    char real[BOX_PATH_BYTES_MAX];
    int r = isolated_workspace_path(s, real);

    if (r < 0)
        return err_set(e, -r, "workspace %s: %s", s->spec.workspace, fs_text(-r));
    return is_taken(real) ? refuse_workspace(s->spec.workspace, e) : 0;
}

/* A workspace that did not exist is given to the session's user. */
static int read_workspace(struct isolated *s, const struct create_body *b, struct err *e)
{
    const struct child_user *user = &s->spec.user;
    bool made = false;
    int r;

    s->spec.workspace = read_path(s, b->path, e);
    if (!s->spec.workspace)
        return err_wrap(e, -e->code, "workspace");
    if (is_taken(s->spec.workspace))
        return refuse_workspace(s->spec.workspace, e);
    r = fs_make_dirs(s->spec.workspace, WORKSPACE_MODE, &made);
    if (r >= 0)
        r = isolated_open_workspace(s);
    if (r < 0)
        return err_set(e, -r, "workspace %s: %s", s->spec.workspace, fs_text(-r));
    r = check_workspace(s, e);
    if (r >= 0 && made && user->change &&
        fchownat(s->workspace, "", user->uid, user->gid, AT_EMPTY_PATH) < 0)
        r = err_set(e, errno, "workspace %s: %s", s->spec.workspace, fs_text(errno));
    return r;
}

static bool is_allowed(const struct isolated_conf *conf, const char *path)
{
    struct str rest = str_of(conf->allowed_writable), prefix;

    while (!is_taken(path) && str_cut(&rest, ',', &prefix))
        if (prefix.n > 0 && prefix.p[0] == '/' && is_within(str_of(path), prefix))
            return true;
    return false;
}

static int refuse_writable(const char *path, struct err *e)
{
    return err_set(e, EPERM, "extra_writable: %s is not on the list of allowed prefixes", path);
}

static int read_writable(struct isolated *s, const struct create_body *b, struct err *e)
{
    s->spec.writable_count = 0;
    for (size_t i = 0; i < b->writable_count; i++) {
        const char *path = read_path(s, b->writable[i], e);

        if (!path)
            return err_wrap(e, -e->code, "extra_writable");
        if (!is_allowed(isolated_conf(s->all), path))
            return refuse_writable(path, e);
        path = real_path(s, path, e);
        if (!path)
            return err_wrap(e, -e->code, "extra_writable");
        if (!is_allowed(isolated_conf(s->all), path))
            return refuse_writable(path, e);
        s->spec.writable[s->spec.writable_count++] = path;
    }
    return 0;
}

/* --- the rest of a new session --- */

static void read_user(struct isolated *s, const struct create_body *b)
{
    struct user u = {.uid = b->uid, .gid = b->uid};

    s->spec.user = s->place.user;
    if (!b->has_uid && !b->has_gid)
        return;
    if (b->has_uid)
        (void)user_by_uid(b->uid, &u); /* a uid without an entry in /etc/passwd gets its own gid */
    else
        u = (struct user){.uid = s->place.user.change ? s->place.user.uid : getuid()};
    if (b->has_gid)
        u.gid = b->gid;
    s->spec.user = (struct child_user){.change = true, .uid = u.uid, .gid = u.gid};
}

static int read_persist(struct isolated *s, struct err *e)
{
    const struct isolated_conf *conf = isolated_conf(s->all);

    if (s->spec.upper_bytes > conf->upper_bytes_max)
        return err_set(e, EINVAL, "persist.max_size_bytes: at most %llu",
                       (unsigned long long)conf->upper_bytes_max);
    if (s->spec.persist && s->spec.mode != BOX_OVERLAY)
        return err_set(e, EINVAL, "persist: only a workspace in overlay mode has a layer to keep");
    if (s->spec.persist && !isolated_can_persist(s->all))
        return err_set(e, EINVAL, "persist: no file system for layers is mounted at %s",
                       conf->upper_root);
    return 0;
}

static int check_keys(const struct isolated_spec *spec, struct err *e)
{
    for (size_t i = 0; i < spec->env_keys_count; i++) {
        struct glob *g = NULL;
        int r = glob_new(spec->env_keys[i], &g, e);

        glob_free(g);
        if (r < 0)
            return err_wrap(e, r, "env_passthrough.keys[%zu]", i);
    }
    return 0;
}

/* The workspace is given as "workspace" or as the one entry of "overlays". */
static int read_places(struct create_body *b, struct err *e)
{
    size_t count = b->overlays_count + (b->path.n > 0);

    if (b->binds_count > 0)
        return err_set(e, EINVAL, "binds: not supported here; use extra_writable");
    if (count == 0)
        return err_set(e, EINVAL, "workspace: required, but missing");
    if (count > 1)
        return err_set(e, EINVAL, "overlays: expected one workspace in all, got %zu", count);
    if (b->overlays_count == 0)
        return 0;
    b->path = b->overlays[0].path;
    b->mode = b->overlays[0].has_mode ? b->overlays[0].mode : BOX_OVERLAY;
    b->has_mode = true;
    b->spec.persist = b->overlays[0].persist;
    return 0;
}

static int read_create(struct isolated *s, struct create_body *b, struct err *e)
{
    int r = read_places(b, e);

    if (r < 0)
        return r;
    s->spec = b->spec;
    s->spec.profile = (enum isolated_profile)b->profile;
    s->spec.mode = b->has_mode                          ? (enum box_mode)b->mode
                   : s->spec.profile == ISOLATED_STRICT ? BOX_OVERLAY
                                                        : BOX_RW;
    s->spec.env = b->has_env ? (enum isolated_env)b->env_mode : ISOLATED_ENV_PROFILE;
    read_user(s, b);
    r = check_keys(&s->spec, e);
    if (r >= 0)
        r = read_persist(s, e);
    if (r >= 0)
        r = read_writable(s, b, e);
    return r < 0 ? r : read_workspace(s, b, e);
}

int isolated_request_create(struct http_req *req, struct isolated *s)
{
    struct create_body b = {
        .env_mode = ISOLATED_ENV_DENY,
        .spec = {.share_net = true,
                 .upper_bytes = isolated_upper_bytes(s->all),
                 .retain_s = ISOLATED_RETAIN_S,
                 .idle_s = ISOLATED_IDLE_S},
    };
    struct err e = {0};
    int r = answer_read_body(req, &s->arena, &create_table, &b, &e);

    if (r < 0) {
        answer_bad_body(req, e.msg);
        return r;
    }
    r = read_create(s, &b, &e);
    if (r < 0)
        answer_invalid_body(req, e.msg);
    return r;
}

/* --- the environment --- */

/* Names that look like secrets. Compared in lower case. */
static const char *const secret_patterns[] = {
    "*_api_key", "*_token",  "*_secret", "*_password", "aws_*",
    "ali_*",     "aliyun_*", "k8s_*",    "kube_*",
};
static const char *const always_passed[] = {"path", "home"}; /* little works without them */

static void lower(struct str name, char out[NAME_BYTES_MAX])
{
    size_t n = min_size(name.n, NAME_BYTES_MAX - 1);

    for (size_t i = 0; i < n; i++)
        out[i] = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] + ('a' - 'A') : name.p[i]);
    out[n] = '\0';
}

/* A pattern too complex to match counts as a match: to withhold a variable is the safer error. */
static bool matches(struct str pattern, const char *name)
{
    char lowered[NAME_BYTES_MAX];
    struct glob *g = NULL;
    bool found;

    lower(pattern, lowered);
    if (glob_new(str_of(lowered), &g, NULL) < 0)
        return false;
    found = glob_match(g, str_of(name)) != 0;
    glob_free(g);
    return found;
}

static bool matches_any(const char *const *patterns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (matches(str_of(patterns[i]), name))
            return true;
    return false;
}

static bool matches_keys(const struct isolated_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->env_keys_count; i++)
        if (matches(spec->env_keys[i], name))
            return true;
    return false;
}

static bool passes(const struct isolated_spec *spec, struct str row)
{
    char name[NAME_BYTES_MAX];
    struct str key;

    (void)str_cut(&row, '=', &key);
    lower(key, name);
    if (spec->env == ISOLATED_ENV_ALLOW)
        return matches_keys(spec, name) ||
               matches_any(always_passed, ARRAY_LEN(always_passed), name);
    if (spec->profile == ISOLATED_STRICT &&
        matches_any(secret_patterns, ARRAY_LEN(secret_patterns), name))
        return false;
    return spec->env == ISOLATED_ENV_PROFILE || !matches_keys(spec, name);
}

int isolated_env_filter(struct arena *a, const struct isolated_spec *spec, const char *const *env,
                        const char *const **ret)
{
    size_t count = 0, n = 0;
    const char **rows;

    while (env[count])
        count++;
    rows = arena_new_array(a, const char *, count + 1);
    if (!rows)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (passes(spec, str_of(env[i])))
            rows[n++] = env[i];
    *ret = rows;
    return 0;
}

/* The variables of execd and of the variables file that pass the filter. */
static int make_env(struct arena *a, const struct isolated_spec *spec, const char *const **ret)
{
    const char *const *ours = (const char *const *)environ;
    const char *const *all;
    AUTO_BUF(file, ENVS_FILES_BYTES_MAX);
    int r;

    envs_read_file(ours, &file);
    r = envs_make(a, ours, buf_str(&file), NULL, 0, &all);
    return r < 0 ? r : isolated_env_filter(a, spec, all, ret);
}

/* --- a run --- */

struct run_body {
    struct str code, cwd;
    struct json_pair *envs;
    size_t envs_count;
    uint32_t timeout_s;
    bool background;
};

static const struct json_field run_fields[] = {
    JSON_FIELD("code", JSON_AS_STR, JSON_NULLABLE, struct run_body, code, .min = 0),
    JSON_FIELD("cwd", JSON_AS_STR, JSON_NULLABLE, struct run_body, cwd,
               .max = BOX_PATH_BYTES_MAX - 1),
    JSON_LIST("envs", JSON_AS_MAP, JSON_NULLABLE, struct run_body, envs, .min = 0),
    JSON_FIELD("timeout_seconds", JSON_AS_U32, JSON_NULLABLE, struct run_body, timeout_s,
               .max = ISOLATED_SECONDS_MAX),
    JSON_FIELD("background", JSON_AS_BOOL, JSON_NULLABLE, struct run_body, background, .min = 0),
};
static const struct json_table run_table = JSON_TABLE(struct run_body, run_fields, 0);

static int check_run(const struct run_body *b, struct err *e)
{
    if (b->code.n == 0)
        return err_set(e, EINVAL, "code is required");
    if (str_has_nul(b->code))
        return err_set(e, EINVAL, "code: it holds a NUL byte, which no program can be given");
    return shell_check_envs(b->envs, b->envs_count, e);
}

/* A path as the session sees it, so its existence is not checked here. A relative one starts at the
 * workspace. */
static int read_cwd(struct arena *a, const struct isolated *s, struct str given,
                    const char *const *env, const char **ret, struct err *e)
{
    AUTO_BUF(path, BOX_PATH_BYTES_MAX - 1);
    AUTO_BUF(clean, BOX_PATH_BYTES_MAX - 1);
    int r = 0;

    if (given.n == 0)
        return 0;
    if (given.p[0] != '/' && given.p[0] != '~' && given.p[0] != '$')
        r = buf_addf(&path, "%s/", s->spec.workspace);
    if (r >= 0)
        r = path_expand(given, env, &path, e);
    if (r >= 0)
        r = path_clean(buf_str(&path), &clean, e);
    if (r < 0)
        return err_wrap(e, r, "cwd");
    *ret = arena_strdup(a, buf_str(&clean));
    return *ret ? 0 : err_set(e, ENOMEM, "no memory");
}

int isolated_request_run(struct http_req *req, struct arena *a, const struct isolated *s,
                         struct isolated_job *ret)
{
    struct run_body b = {.timeout_s = RUN_TIMEOUT_S};
    struct err e = {0};
    int r = answer_read_body(req, a, &run_table, &b, &e);

    if (r < 0) {
        answer_bad_body(req, e.msg);
        return r;
    }
    *ret = (struct isolated_job){.code = b.code,
                                 .envs = b.envs,
                                 .envs_count = b.envs_count,
                                 .background = b.background,
                                 .timeout_ms = (uint64_t)b.timeout_s * 1000};
    r = check_run(&b, &e);
    if (r >= 0 && make_env(a, &s->spec, &ret->env) < 0)
        r = err_set(&e, ENOMEM, "no memory for the environment");
    if (r >= 0)
        r = read_cwd(a, s, b.cwd, ret->env, &ret->cwd, &e);
    if (r < 0)
        answer_invalid_body(req, e.msg);
    return r;
}

/* --- a commit --- */

struct commit_body {
    bool reset;
    int strategy;
};

static const struct json_name strategy_names[] = {
    {"overwrite", 0},
    {NULL,        0},
};
static const struct json_field commit_fields[] = {
    JSON_FIELD("strategy", JSON_AS_ENUM, JSON_NULLABLE, struct commit_body, strategy,
               .names = strategy_names),
    JSON_FIELD("reset_upper_after", JSON_AS_BOOL, JSON_NULLABLE, struct commit_body, reset,
               .min = 0),
};
static const struct json_table commit_table = JSON_TABLE(struct commit_body, commit_fields, 0);

int isolated_request_commit(struct http_req *req, struct isolated_commit *ret)
{
    AUTO_ARENA(arena, REQUEST_ARENA_BYTES_MAX);
    struct commit_body b = {0};
    struct err e = {0};
    int r = answer_read_optional(req, &arena, &commit_table, &b, &e);

    if (r < 0)
        answer_bad_body(req, e.msg);
    else
        *ret = (struct isolated_commit){.reset_upper_after = b.reset};
    return r;
}
