#include "execd/core/envs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/map.h"
#include "execd/core/path.h"

enum { VARIABLES_MAX = 1 << 16 };

/* Not for commands: a process that has them can send any request to execd or to a notebook server.
 */
static const struct str secrets[] = {
    STR_INIT("EXECD_ACCESS_TOKEN"),
    STR_INIT("JUPYTER_TOKEN"),
};

bool envs_is_name(struct str name)
{
    return name.n > 0 && str_find(name, '=') == name.n && str_find(name, '\0') == name.n;
}

int envs_check(const struct json_pair *envs, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++)
        if (!envs_is_name(envs[i].key) || str_has_nul(envs[i].value))
            return err_set(e, EINVAL, "envs: '%.*s' cannot be a variable", STR_ARG(envs[i].key));
    return 0;
}

static bool is_secret(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
        if (str_eq(name, secrets[i]))
            return true;
    return false;
}

/* Sets a row; `row` is the whole NAME=VALUE and outlives the map. */
static int set_row(struct map *m, struct str name, const char *row)
{
    return map_set(m, name, (void *)row);
}

static int add_ours(struct map *m, const char *const *ours)
{
    int r = 0;

    for (; *ours && r >= 0; ours++) {
        struct str row = str_of(*ours), name;

        (void)str_cut(&row, '=', &name);
        if (!is_secret(name))
            r = set_row(m, name, *ours);
    }
    return r;
}

static bool is_name_char(char c, bool first)
{
    return ascii_is_alpha(c) || c == '_' || (!first && ascii_is_digit(c));
}

/* Takes "$NAME" or "${NAME}" off the front of *s. False when it is neither. */
static bool cut_variable(struct str *s, struct str *ret_name)
{
    bool braces = s->n > 1 && s->p[1] == '{';
    size_t begin = braces ? 2 : 1, n = begin;

    while (n < s->n && is_name_char(s->p[n], n == begin))
        n++;
    if (n == begin || (braces && (n == s->n || s->p[n] != '}')))
        return false;
    *ret_name = str_make(s->p + begin, n - begin);
    *s = str_skip(*s, n + braces);
    return true;
}

static int add_expanded(struct buf *out, struct str value, const char *const *ours)
{
    struct str name;
    int r = 0;

    while (value.n > 0 && r >= 0) {
        size_t n = str_find(value, '$');

        r = buf_add(out, str_make(value.p, n));
        value = str_skip(value, n);
        if (r < 0 || value.n == 0)
            break;
        if (cut_variable(&value, &name)) {
            r = buf_add(out, is_secret(name) ? STR_NONE : path_env(ours, name));
        } else {
            r = buf_add_char(out, '$');
            value = str_skip(value, 1);
        }
    }
    return r;
}

/* Whether it begins and ends with this quote and has none inside. */
static bool is_quoted(struct str value, char quote)
{
    return value.n >= 2 && value.p[0] == quote &&
           str_find(str_skip(value, 1), quote) == value.n - 2;
}

/* The form in which clients write a value that contains a '. */
static bool is_escaped(struct str value)
{
    return value.n >= 2 && value.p[0] == '"' && value.p[value.n - 1] == '"' &&
           str_find(value, '\'') < value.n;
}

static int add_unescaped(struct buf *out, struct str value)
{
    static const char from[] = "nrt", to[] = "\n\r\t";
    int r = 0;

    for (size_t i = 1; i + 1 < value.n && r >= 0; i++) {
        const char *known;

        if (value.p[i] != '\\' || i + 2 >= value.n) {
            r = buf_add_char(out, value.p[i]);
            continue;
        }
        i++;
        known = memchr(from, value.p[i], sizeof(from) - 1);
        r = buf_add_char(out, known ? to[known - from] : value.p[i]);
    }
    return r;
}

static int add_value(struct buf *out, struct str value, const char *const *ours)
{
    AUTO_BUF(plain, ENVS_FILE_BYTES_MAX);
    int r;

    if (is_quoted(value, '\''))
        return buf_add(out, str_make(value.p + 1, value.n - 2));
    if (!is_escaped(value))
        return add_expanded(out, value, ours);
    r = add_unescaped(&plain, value);
    return r < 0 ? r : add_expanded(out, buf_str(&plain), ours);
}

static int add_line(struct map *m, struct arena *a, struct str line, const char *const *ours)
{
    AUTO_BUF(row, ENVS_FILE_BYTES_MAX);
    struct str name, value = line;
    const char *kept;

    (void)str_cut(&value, '=', &name);
    name = str_trim(name);
    if (!value.p || !envs_is_name(name) || str_has_nul(value)) {
        log_event(LOG_WARN, "EXECD_ENVS: skipped a line that is not NAME=VALUE");
        return 0;
    }
    if (buf_addf(&row, "%.*s=", STR_ARG(name)) < 0 || add_value(&row, value, ours) < 0)
        return -ENOMEM;
    kept = arena_strdup(a, buf_str(&row));
    return kept ? set_row(m, name, kept) : -ENOMEM;
}

static struct str trim_line(struct str line)
{
    line = str_trim(line);
    if (str_ends(line, STR("\r")))
        line = str_trim(str_make(line.p, line.n - 1));
    return line;
}

/* Takes the text from NAME=' up to the closing ' if that one ends its line. */
static bool cut_quoted(struct str *file, struct str *ret)
{
    struct str head, rest = *file, text, behind;
    size_t n;

    if (!str_cut(&rest, '\n', &head) || !str_cut(&head, '=', &text) || head.n == 0 ||
        head.p[0] != '\'' || str_starts(str_trim(text), STR("#")))
        return false;
    text = str_make(head.p + 1, (size_t)(file->p + file->n - head.p - 1));
    n = str_find(text, '\'');
    if (n == text.n)
        return false;
    rest = str_skip(text, n + 1);
    if (str_cut(&rest, '\n', &behind) && trim_line(behind).n > 0)
        return false;
    *ret = str_make(file->p, (size_t)(text.p + n + 1 - file->p));
    *file = rest;
    return true;
}

static int add_file(struct map *m, struct arena *a, struct str file, const char *const *ours)
{
    struct str line;
    int r = 0;

    while (r >= 0 && (cut_quoted(&file, &line) || str_cut(&file, '\n', &line))) {
        line = trim_line(line);
        if (line.n > 0 && line.p[0] != '#')
            r = add_line(m, a, line, ours);
    }
    return r;
}

static int add_extra(struct map *m, struct arena *a, const struct json_pair *extra, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *row = arena_printf(a, "%.*s=%.*s", STR_ARG(extra[i].key), STR_ARG(extra[i].value));
        int r = row ? set_row(m, extra[i].key, row) : -ENOMEM;

        if (r < 0)
            return r;
    }
    return 0;
}

int envs_make(struct arena *a, const char *const *ours, struct str file,
              const struct json_pair *extra, size_t extra_count, const char *const **ret)
{
    auto_map m;
    const char **rows;
    size_t at = 0, n = 0;
    void *row;
    int r;

    map_init(&m, VARIABLES_MAX, NULL);
    r = add_ours(&m, ours);
    if (r >= 0)
        r = add_file(&m, a, file, ours);
    if (r >= 0)
        r = add_extra(&m, a, extra, extra_count);
    if (r < 0)
        return -ENOMEM;
    rows = arena_new_array(a, const char *, m.n + 1);
    if (!rows)
        return -ENOMEM;
    while (map_next(&m, &at, NULL, &row))
        rows[n++] = row;
    *ret = rows;
    return 0;
}

const char *envs_name_file(void)
{
    const char *name = getenv("EXECD_ENVS");

    if (name && name[0])
        return name;
    (void)setenv("EXECD_ENVS", ENVS_FILE, 1);
    return ENVS_FILE;
}

void envs_read_file(const char *const *ours, struct buf *out)
{
    struct str name = path_env(ours, STR("EXECD_ENVS"));
    AUTO_BUF(path, EXECD_PATH_BYTES_MAX);
    struct err e = {0};
    int r;

    r = io_read_regular(AT_FDCWD, ENVS_CLAIM_FILE, ENVS_FILE_BYTES_MAX, out, &e);
    if (r < 0 && r != -ENOENT)
        log_event(LOG_WARN, "the variables of the claim cannot be read, going on without them",
                  LOG_STR("why", e.msg));
    if (name.n == 0)
        return;
    if (out->n > 0 && buf_add_char(out, '\n') < 0)
        return;
    r = path_expand(name, ours, &path, &e);
    if (r >= 0)
        r = io_read_regular(AT_FDCWD, path.p, ENVS_FILE_BYTES_MAX, out, &e);
    if (r < 0 && r != -ENOENT)
        log_event(LOG_WARN, "EXECD_ENVS cannot be read, going on without it",
                  LOG_STR("why", e.msg));
}
