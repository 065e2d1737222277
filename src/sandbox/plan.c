#include "sandbox/plan.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
    LIMIT_PIDS_MAX = 4 * 1024 * 1024, /* the kernel's maximum on 64 bits */
    LIMIT_FILES_MAX = 1024 * 1024,
    LIMIT_IO_WEIGHT_MAX = 10000,
};

void plan_init(struct plan *p)
{
    memset(p, 0, offsetof(struct plan, text));
}

/* Adds name, "=" if there is a value, value, and the NUL; all or nothing. */
static int add_text(struct plan *p, struct str name, struct str sep, struct str value)
{
    const struct str parts[] = {name, sep, value};
    size_t room = PLAN_TEXT_MAX - p->text_bytes, need = 1;

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (str_find(parts[i], '\0') != parts[i].n)
            return -EINVAL;
        if (parts[i].n > room)
            return -E2BIG;
        need += parts[i].n;
    }
    if (need > room || need > PLAN_STRING_MAX)
        return -E2BIG;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (parts[i].n)
            memcpy(p->text + p->text_bytes, parts[i].p, parts[i].n);
        p->text_bytes += (uint32_t)parts[i].n;
    }
    p->text[p->text_bytes++] = '\0';
    return 0;
}

int plan_add_arg(struct plan *p, struct str arg)
{
    int r;

    assert(p->env_count == 0);
    if (p->arg_count == PLAN_ARGS_MAX)
        return -E2BIG;
    r = add_text(p, arg, STR(""), STR(""));
    p->arg_count += r == 0;
    return r;
}

int plan_add_env(struct plan *p, struct str name, struct str value)
{
    int r;

    if (name.n == 0 || str_find(name, '=') < name.n)
        return -EINVAL;
    if (p->env_count == PLAN_ENV_MAX)
        return -E2BIG;
    r = add_text(p, name, STR("="), value);
    p->env_count += r == 0;
    return r;
}

static void reverse(char *p, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        char c = p[i];

        p[i] = p[n - 1 - i];
        p[n - 1 - i] = c;
    }
}

int plan_insert_env(struct plan *p, struct str name, struct str value)
{
    size_t at = 0, before = p->text_bytes;
    int r;

    for (uint32_t i = 0; i < p->arg_count + p->env_count; i++)
        at += strlen(p->text + at) + 1;
    r = plan_add_env(p, name, value);
    if (r < 0)
        return r;
    /* It is at the end: exchange it with what follows the environment. */
    reverse(p->text + at, before - at);
    reverse(p->text + before, p->text_bytes - before);
    reverse(p->text + at, p->text_bytes - at);
    return 0;
}

int plan_set_cwd(struct plan *p, struct str cwd)
{
    if (cwd.n == 0 || cwd.p[0] != '/')
        return -EINVAL;
    return add_text(p, cwd, STR(""), STR(""));
}

int plan_add_bind(struct plan *p, struct str target, bool read_only)
{
    int r;

    if (!plan_target_is_valid(target))
        return -EINVAL;
    if (p->bind_count == PLAN_BINDS_MAX)
        return -E2BIG;
    r = add_text(p, target, STR(""), STR(""));
    if (r < 0)
        return r;
    p->binds_read_only |= (uint32_t)read_only << p->bind_count++;
    return 0;
}

int plan_add_objects(struct plan *p, struct str target, bool read_only)
{
    int r = plan_add_bind(p, target, read_only);

    if (r == 0)
        p->binds_objects |= UINT32_C(1) << (p->bind_count - 1);
    return r;
}

void plan_give_bind(struct plan *p)
{
    p->binds_given |= UINT32_C(1) << (p->bind_count - 1);
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || ascii_is_digit(c);
}

static bool name_is_valid(struct str id, size_t max)
{
    if (id.n == 0 || id.n >= max)
        return false;
    for (size_t i = 0; i < id.n; i++)
        if (!is_name_char(id.p[i]) && (id.p[i] != '-' || i == 0 || i + 1 == id.n))
            return false;
    return true;
}

bool plan_id_is_valid(struct str id)
{
    return name_is_valid(id, PLAN_ID_MAX);
}

bool plan_runtime_is_valid(struct str name)
{
    return name.n == 0 || name_is_valid(name, PLAN_RUNTIME_MAX);
}

bool plan_target_is_valid(struct str target)
{
    static const struct str ours[] = {STR_INIT("proc"), STR_INIT("sys"), STR_INIT("dev")};
    struct str rest = target, part;

    if (target.n < 2 || target.n >= PLAN_TARGET_MAX || target.p[0] != '/')
        return false;
    str_cut(&rest, '/', &part); /* the empty part before the first / */
    for (bool first = true; rest.p; first = false) {
        str_cut(&rest, '/', &part);
        if (part.n == 0 || str_eq(part, STR(".")) || str_eq(part, STR("..")))
            return false;
        for (size_t i = 0; first && i < ARRAY_LEN(ours); i++)
            if (str_eq(part, ours[i]))
                return false;
    }
    return true;
}

/* Letters, digits, inner '-' and '.'; it is written to /etc/hosts. */
static bool hostname_is_valid(struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];

        if (!is_name_char(ascii_lower(c)) && ((c != '-' && c != '.') || i == 0 || i + 1 == name.n))
            return false;
    }
    return true;
}

/* The C string in an array, or STR_NONE when it has no NUL. */
static struct str field_str(const char *field, size_t size)
{
    size_t n = strnlen(field, size);

    return n < size ? str_make(field, n) : STR_NONE;
}

static int check_names(const struct plan *p, struct err *e)
{
    struct str id = field_str(p->id, sizeof(p->id));
    struct str hostname = field_str(p->hostname, sizeof(p->hostname));
    struct str runtime = field_str(p->runtime, sizeof(p->runtime));

    if (!plan_id_is_valid(id))
        return err_set(e, EINVAL, "plan: id is not of a-z, 0-9 and '-'");
    if (!hostname.p || !hostname_is_valid(hostname))
        return err_set(e, EINVAL, "plan: hostname is not of letters, digits, '-' and '.'");
    if (!runtime.p || !plan_runtime_is_valid(runtime))
        return err_set(e, EINVAL, "plan: runtime is not of a-z, 0-9 and '-'");
    return 0;
}

static int check_numbers(const struct plan *p, struct err *e)
{
    const struct plan_limits *l = &p->limits;
    const struct {
        const char *name;
        uint64_t value, min, max;
    } rows[] = {
        {"root",                  (uint64_t)p->root, PLAN_ROOT_HOST,           PLAN_ROOT_DIR            },
        {"net",                   (uint64_t)p->net,  PLAN_NET_NONE,            PLAN_NET_BRIDGE          },
        {"layer_count",           p->layer_count,    p->root == PLAN_ROOT_DIR, PLAN_LAYERS_MAX          },
        {"lasting",               p->lasting,        0,                        l->disk_bytes == 0       },
        {"memory",                p->memory,         0,                        p->runtime[0] != '\0'    },
        {"guarded",               p->guarded,        0,                        p->net == PLAN_NET_BRIDGE},
        {"bind_count",            p->bind_count,     0,                        PLAN_BINDS_MAX           },
        {"uid",                   p->uid,            0,                        PLAN_UID_RANGE - 1       },
        {"gid",                   p->gid,            0,                        PLAN_UID_RANGE - 1       },
        {"limits.memory_bytes",   l->memory_bytes,   0,                        PLAN_BYTES_MAX           },
        {"limits.disk_bytes",     l->disk_bytes,     0,                        PLAN_BYTES_MAX           },
        {"limits.tmp_bytes",      l->tmp_bytes,      0,                        PLAN_BYTES_MAX           },
        {"limits.shm_bytes",      l->shm_bytes,      0,                        PLAN_BYTES_MAX           },
        {"limits.cpu_millicores", l->cpu_millicores, 0,                        PLAN_MILLICORES_MAX      },
        {"limits.pids",           l->pids,           0,                        LIMIT_PIDS_MAX           },
        {"limits.io_weight",      l->io_weight,      0,                        LIMIT_IO_WEIGHT_MAX      },
        {"limits.open_files",     l->open_files,     0,                        LIMIT_FILES_MAX          },
        {"arg_count",             p->arg_count,      1,                        PLAN_ARGS_MAX            },
        {"env_count",             p->env_count,      0,                        PLAN_ENV_MAX             },
        {"text_bytes",            p->text_bytes,     1,                        PLAN_TEXT_MAX            },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].value < rows[i].min || rows[i].value > rows[i].max)
            return err_set(e, EINVAL, "plan: %s is %llu, not %llu to %llu", rows[i].name,
                           (unsigned long long)rows[i].value, (unsigned long long)rows[i].min,
                           (unsigned long long)rows[i].max);
    return 0;
}

/* Checks the i-th string of the text. */
static int check_string(const struct plan *p, size_t i, struct str s, struct err *e)
{
    size_t cwd = p->arg_count + p->env_count;

    if (i == 0 && s.n == 0)
        return err_set(e, EINVAL, "plan: the first argument is empty");
    if (i >= p->arg_count && i < cwd && (s.n == 0 || s.p[0] == '=' || str_find(s, '=') == s.n))
        return err_set(e, EINVAL, "plan: environment string %zu is not NAME=value",
                       i - p->arg_count);
    if (i == cwd && (s.n == 0 || s.p[0] != '/'))
        return err_set(e, EINVAL, "plan: cwd is not an absolute path");
    if (i > cwd && !plan_target_is_valid(s))
        return err_set(
            e, EINVAL,
            "plan: bind %zu is not at a plain absolute path outside /proc, /sys and /dev",
            i - cwd - 1);
    return 0;
}

/* The text must have exactly the counted strings, and end with the last one. */
static int check_text(const struct plan *p, struct err *e)
{
    size_t strings = p->arg_count + p->env_count + 1 + p->bind_count;
    const char *at = p->text, *end = p->text + p->text_bytes;

    for (size_t i = 0; i < strings; i++) {
        struct str s = field_str(at, (size_t)(end - at));
        int r = s.p ? check_string(p, i, s, e)
                    : err_set(e, EINVAL, "plan: text has fewer strings than are counted");

        if (r < 0)
            return r;
        at += s.n + 1;
    }
    if (at != end)
        return err_set(e, EINVAL, "plan: text continues after its last string");
    return 0;
}

/* Each path has one volume, and none covers the programs of the sandbox. */
static int check_binds(const struct plan *p, struct err *e)
{
    const char *targets[PLAN_BINDS_MAX + 1];

    if (p->binds_read_only >> p->bind_count)
        return err_set(e, EINVAL, "plan: binds_read_only has bits beyond bind_count");
    if (p->binds_objects >> p->bind_count)
        return err_set(e, EINVAL, "plan: binds_objects has bits beyond bind_count");
    if (p->binds_given >> p->bind_count || (p->binds_given & p->binds_objects))
        return err_set(e, EINVAL, "plan: binds_given has bits that are of no directory");
    plan_targets(p, targets);
    for (size_t i = 0; i < p->bind_count; i++) {
        if (p->root == PLAN_ROOT_HOST && strcmp(targets[i], "/usr") == 0)
            return err_set(e, EINVAL, "plan: bind %zu would cover the host's /usr", i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(targets[i], targets[k]) == 0)
                return err_set(e, EINVAL, "plan: binds %zu and %zu have the same place", k, i);
    }
    return 0;
}

bool plan_has_shifted_layer(const struct plan *p)
{
    for (size_t i = 0; i < p->layer_count; i++)
        if (p->layer_flags[i] & PLAN_LAYER_SHIFTED)
            return true;
    return false;
}

static int check_layers(const struct plan *p, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(p->layer_flags); i++)
        if (p->layer_flags[i] & ~(i < p->layer_count ? PLAN_LAYER_FLAGS : 0))
            return err_set(e, EINVAL, "plan: layer_flags has unknown bits for layer %zu of %u", i,
                           p->layer_count);
    return 0;
}

int plan_check(const struct plan *p, struct err *e)
{
    int r = check_names(p, e);

    if (r >= 0)
        r = check_numbers(p, e);
    if (r >= 0)
        r = check_layers(p, e);
    if (r >= 0)
        r = check_text(p, e);
    if (r >= 0)
        r = check_binds(p, e);
    return r;
}

/* Points at `count` consecutive strings, and a NULL; returns what follows them. */
static const char *point_at(const char *at, size_t count, const char **ret)
{
    for (size_t i = 0; i < count; i++) {
        ret[i] = at;
        at += strlen(at) + 1;
    }
    ret[count] = NULL;
    return at;
}

void plan_strings(const struct plan *p, const char **argv, const char **env, const char **cwd)
{
    const char *at = point_at(p->text, p->arg_count, argv);

    *cwd = point_at(at, p->env_count, env);
}

void plan_targets(const struct plan *p, const char **targets)
{
    const char *at = p->text;

    for (size_t i = 0; i < (size_t)p->arg_count + p->env_count + 1; i++)
        at += strlen(at) + 1;
    (void)point_at(at, p->bind_count, targets);
}
