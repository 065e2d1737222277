#include "execd/core/path.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

/* A '$' in a path and the name after it. */
struct reference {
    struct str name;  /* STR_NONE: no variable, the text is literal */
    size_t text_n;    /* length in the path, in bytes */
    struct str value; /* STR_NONE: not defined */
};

enum { UNDEFINED_MAX = 32 }; /* undefined names listed in one message */

struct names {
    struct str rows[UNDEFINED_MAX];
    size_t count;
};

struct str path_env(const char *const *env, struct str name)
{
    struct str found = STR_NONE;

    for (; *env; env++) {
        struct str value = str_of(*env), key;

        if (str_cut(&value, '=', &key) && value.p && str_eq(key, name))
            found = value;
    }
    return found;
}

/* --- variables --- */

static size_t name_length(struct str s)
{
    size_t n = 0;

    while (n < s.n &&
           (ascii_is_alpha(s.p[n]) || s.p[n] == '_' || (n > 0 && ascii_is_digit(s.p[n]))))
        n++;
    return n;
}

/* Parses the reference at a '$'. */
static struct reference reference_read(struct str s, const char *const *env)
{
    struct reference ref = {.text_n = 1};
    bool braced = s.n > 1 && s.p[1] == '{';
    struct str rest = str_skip(s, braced ? 2 : 1);
    size_t n = name_length(rest);

    if (n == 0 || (braced && (n == rest.n || rest.p[n] != '}')))
        return ref;
    ref.name = str_make(rest.p, n);
    ref.text_n = n + (braced ? 3 : 1);
    ref.value = path_env(env, ref.name);
    return ref;
}

/* Keeps the names sorted and unique. */
static void names_add(struct names *names, struct str name)
{
    size_t at = 0;

    while (at < names->count && str_cmp(names->rows[at], name) < 0)
        at++;
    if (names->count == UNDEFINED_MAX || (at < names->count && str_eq(names->rows[at], name)))
        return;
    memmove(&names->rows[at + 1], &names->rows[at], (names->count - at) * sizeof(*names->rows));
    names->rows[at] = name;
    names->count++;
}

static int names_refuse(const struct names *names, struct err *e)
{
    AUTO_BUF(list, sizeof(e->msg));

    for (size_t i = 0; i < names->count; i++)
        if (buf_addf(&list, "%s%.*s", i ? "," : "", STR_ARG(names->rows[i])) < 0)
            break; /* the message has no room for more */
    return err_set(e, EINVAL, "path references undefined environment variables: %s", list.p);
}

/* Appends the path with variables expanded, and collects the undefined ones. */
static int expand_variables(struct str path, const char *const *env, struct buf *out,
                            struct names *undefined)
{
    int r = 0;

    while (r == 0 && path.n > 0) {
        size_t plain = str_find(path, '$');
        bool escaped = plain > 0 && plain < path.n && path.p[plain - 1] == '\\';
        struct reference ref;

        r = buf_add(out, str_make(path.p, plain - escaped));
        path = str_skip(path, plain);
        if (r < 0 || path.n == 0)
            break;
        ref = escaped ? (struct reference){.text_n = 1} : reference_read(path, env);
        if (ref.name.p && !ref.value.p)
            names_add(undefined, ref.name);
        else
            r = buf_add(out, ref.name.p ? ref.value : STR("$"));
        path = str_skip(path, ref.text_n);
    }
    return r;
}

/* --- the home directory --- */

static int expand_home(struct buf *out, size_t from, const char *const *env, struct err *e)
{
    AUTO_BUF(rest, out->max);
    struct str path = str_make(out->p + from, out->n - from);
    struct str home;
    int r;

    if (path.n == 0 || path.p[0] != '~' || (path.n > 1 && path.p[1] != '/'))
        return 0;
    home = path_env(env, STR("HOME"));
    if (home.n == 0)
        return err_set(e, EINVAL, "path begins with '~' and HOME is not set");
    r = buf_add(&rest, str_skip(path, 1));
    if (r < 0)
        return r;
    buf_cut(out, from);
    r = buf_add(out, home);
    return r < 0 ? r : buf_add(out, buf_str(&rest));
}

static int path_too_long(int r, struct err *e)
{
    return r == -EMSGSIZE ? err_set(e, ENAMETOOLONG, "path is too long")
                          : err_set(e, -r, "no memory for a path");
}

int path_expand(struct str path, const char *const *env, struct buf *out, struct err *e)
{
    struct names undefined = {.count = 0};
    struct err cause = {0};
    size_t from = out->n;
    int r;

    if (str_has_nul(path))
        return err_set(e, EINVAL, "path holds a NUL byte");
    r = expand_variables(path, env, out, &undefined);
    if (r == 0 && undefined.count > 0)
        r = names_refuse(&undefined, &cause);
    if (r == 0)
        r = expand_home(out, from, env, &cause);
    if (r == 0)
        return 0;
    buf_cut(out, from);
    return cause.code ? err_set(e, cause.code, "%s", cause.msg) : path_too_long(r, e);
}

/* --- absolute and clean --- */

static void clean_go_up(struct buf *out, size_t from)
{
    size_t n = out->n;

    while (n > from && out->p[n - 1] != '/')
        n--;
    buf_cut(out, n > from ? n - 1 : n);
}

/* Appends the segments of `path` to the absolute path that begins at `from`; "" is the root. */
static int clean_segments(struct str path, struct buf *out, size_t from)
{
    struct str segment;
    int r = 0;

    while (r == 0 && str_cut(&path, '/', &segment)) {
        if (segment.n == 0 || str_eq(segment, STR(".")))
            continue;
        if (str_eq(segment, STR("..")))
            clean_go_up(out, from);
        else
            r = buf_addf(out, "/%.*s", STR_ARG(segment));
    }
    return r;
}

int path_clean(struct str path, struct buf *out, struct err *e)
{
    char cwd[PATH_MAX];
    size_t from = out->n;
    int r = 0;

    if (path.n == 0 || path.p[0] != '/') {
        if (!getcwd(cwd, sizeof(cwd)))
            return err_sys(e, errno, "find the working directory");
        r = clean_segments(str_of(cwd), out, from);
    }
    if (r == 0)
        r = clean_segments(path, out, from);
    if (r == 0 && out->n == from)
        r = buf_add_char(out, '/');
    if (r == 0)
        return 0;
    buf_cut(out, from);
    return path_too_long(r, e);
}

int path_resolve(struct str path, const char *const *env, struct buf *out, struct err *e)
{
    AUTO_BUF(expanded, out->max);
    int r = path_expand(path, env, &expanded, e);

    return r < 0 ? r : path_clean(buf_str(&expanded), out, e);
}

static size_t last_slash(struct str path)
{
    size_t at = path.n;

    while (at > 0 && path.p[at - 1] != '/')
        at--;
    return at; /* index after it; 0 = none */
}

struct str path_base(struct str path)
{
    size_t at = last_slash(path);

    return at == path.n && at > 0 ? str_make(path.p + at - 1, 1) : str_skip(path, at);
}

struct str path_parent(struct str path)
{
    size_t at = last_slash(path);

    return str_make(path.p, at > 1 ? at - 1 : at);
}
