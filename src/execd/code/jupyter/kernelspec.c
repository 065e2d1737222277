#include "execd/code/jupyter/kernelspec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "execd/command/command.h"
#include "execd/core/envs.h"
#include "execd/core/path.h"

enum { ARGUMENT_BYTES_MAX = 16 << 10, ENV_TEXT_BYTES_MAX = 128 << 10, FOLDER_NAMES_MAX = 1024 };

/* Kernel names that the API's images use for a language. */
static const struct {
    const char *language, *name;
} known_names[] = {
    {"bash",       "bash"   },
    {"go",         "gonb"   },
    {"java",       "java"   },
    {"javascript", "jslab"  },
    {"python",     "python3"},
    {"typescript", "tslab"  },
};

/* --- one kernel.json --- */

enum interrupt_mode { INTERRUPT_SIGNAL, INTERRUPT_MESSAGE };

struct spec_file {
    struct str language;
    struct str *argv;
    size_t argv_count;
    struct json_pair *env;
    size_t env_count;
    int interrupt_mode;
};

static const struct json_name interrupt_modes[] = {
    {"signal",  INTERRUPT_SIGNAL },
    {"message", INTERRUPT_MESSAGE},
    {NULL,      0                },
};

static const struct json_field argument = {.as = JSON_AS_STR, .max = ARGUMENT_BYTES_MAX};

static const struct json_field spec_fields[] = {
    JSON_LIST("argv", JSON_AS_ARRAY, JSON_REQUIRED, struct spec_file, argv, .element = &argument,
              .min = 1, .max = 256),
    JSON_FIELD("language", JSON_AS_STR, JSON_REQUIRED, struct spec_file, language, .max = 256),
    JSON_LIST("env", JSON_AS_MAP, JSON_NULLABLE, struct spec_file, env, .max = 256),
    JSON_FIELD("interrupt_mode", JSON_AS_ENUM, JSON_NULLABLE, struct spec_file, interrupt_mode,
               .names = interrupt_modes),
};
static const struct json_table spec_table = JSON_TABLE(struct spec_file, spec_fields, 0);

/* Checks that execve() can take argv and env. */
static int check_spec(const struct spec_file *f, struct err *e)
{
    for (size_t i = 0; i < f->argv_count; i++)
        if (str_has_nul(f->argv[i]) || f->argv[0].n == 0)
            return err_set(e, EBADMSG, "argv[%zu]: empty, or contains a NUL byte", i);
    for (size_t i = 0; i < f->env_count; i++)
        if (!envs_is_name(f->env[i].key) || str_has_nul(f->env[i].value))
            return err_set(e, EBADMSG, "env: an entry is not a variable");
    return 0;
}

int kernelspec_parse(struct arena *a, struct str text, struct kernelspec *ret, struct err *e)
{
    static const struct json_limits limits = {.text_bytes_max = KERNELSPEC_BYTES_MAX,
                                              .duplicates = JSON_DUPLICATES_LAST};
    struct spec_file f = {0};
    struct json *v;
    int r = json_parse(a, text, &limits, &v, e);

    if (r >= 0)
        r = json_bind(a, v, &spec_table, &f, e);
    if (r < 0)
        return r;
    r = check_spec(&f, e);
    if (r < 0)
        return r;
    ret->language = f.language;
    ret->argv = f.argv;
    ret->argv_count = f.argv_count;
    ret->env = f.env;
    ret->env_count = f.env_count;
    ret->interrupt_by_message = f.interrupt_mode == INTERRUPT_MESSAGE;
    return 0;
}

/* --- search --- */

struct search {
    struct arena *arena;
    const char *const *env;
    struct kernelspec *specs; /* KERNELSPECS_MAX */
    size_t count;
    int error;
};

static bool search_has(const struct search *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->specs[i].name, name) == 0)
            return true;
    return false;
}

static void search_add(struct search *s, const char *folder, const char *name)
{
    AUTO_BUF(text, KERNELSPEC_BYTES_MAX);
    struct kernelspec spec = {0};
    struct err e = {0};
    char *file;

    if (s->count == KERNELSPECS_MAX || search_has(s, name))
        return;
    spec.name = arena_strdup(s->arena, str_of(name));
    spec.dir = arena_printf(s->arena, "%s/%s", folder, name);
    file = arena_printf(s->arena, "%s/%s/kernel.json", folder, name);
    if (!spec.name || !spec.dir || !file) {
        s->error = -ENOMEM;
        return;
    }
    if (access(file, R_OK) < 0)
        return;
    if (io_read_regular(AT_FDCWD, file, KERNELSPEC_BYTES_MAX, &text, &e) < 0 ||
        kernelspec_parse(s->arena, buf_str(&text), &spec, &e) < 0) {
        log_event(LOG_WARN, "a kernelspec is not usable, left out", LOG_STR("file", file),
                  LOG_STR("why", e.msg));
        return;
    }
    s->specs[s->count++] = spec;
}

static void search_folder(struct search *s, const char *folder)
{
    DIR *dir = folder && folder[0] == '/' ? opendir(folder) : NULL;
    struct dirent *d;

    if (!dir)
        return;
    for (int i = 0; i < FOLDER_NAMES_MAX && s->error >= 0 && (d = readdir(dir)); i++)
        if (d->d_name[0] != '.')
            search_add(s, folder, d->d_name);
    (void)closedir(dir);
}

/* Searches the directory in a variable plus `tail`. False if the variable is unset. */
static bool search_variable(struct search *s, const char *name, const char *tail)
{
    struct str value = path_env(s->env, str_of(name));

    if (value.n == 0)
        return false;
    search_folder(s, arena_printf(s->arena, "%.*s%s", STR_ARG(value), tail));
    return true;
}

static void search_jupyter_path(struct search *s)
{
    struct str path = path_env(s->env, STR("JUPYTER_PATH")), dir;

    while (str_cut(&path, ':', &dir))
        if (dir.n > 0)
            search_folder(s, arena_printf(s->arena, "%.*s/kernels", STR_ARG(dir)));
}

static void search_user(struct search *s)
{
    if (!search_variable(s, "JUPYTER_DATA_DIR", "/kernels") &&
        !search_variable(s, "XDG_DATA_HOME", "/jupyter/kernels"))
        (void)search_variable(s, "HOME", "/.local/share/jupyter/kernels");
}

/* Searches where the python3 on PATH would look. Does not resolve its symlink: the symlink's
 * location identifies a virtual environment. */
static void search_python(struct search *s)
{
    AUTO_BUF(program, EXECD_PATH_BYTES_MAX);
    struct str prefix;

    if (!command_find_program(path_env(s->env, STR("PATH")), "python3", &program))
        return;
    prefix = path_parent(path_parent(buf_str(&program)));
    search_folder(s, arena_printf(s->arena, "%.*s/share/jupyter/kernels", STR_ARG(prefix)));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct kernelspec *)a)->name, ((const struct kernelspec *)b)->name);
}

/* Lists all specs, by name. An invalid kernel.json is skipped with a warning in our log. */
static int kernelspecs_list(struct arena *a, const char *const *env, const struct kernelspec **ret,
                            size_t *ret_count, struct err *e)
{
    struct search s = {.arena = a, .env = env};

    s.specs = arena_new_array(a, struct kernelspec, KERNELSPECS_MAX);
    if (!s.specs)
        return err_set(e, ENOMEM, "no memory for kernelspecs");
    search_jupyter_path(&s);
    search_user(&s);
    (void)search_variable(&s, "VIRTUAL_ENV", "/share/jupyter/kernels");
    (void)search_variable(&s, "CONDA_PREFIX", "/share/jupyter/kernels");
    search_python(&s);
    search_folder(&s, "/usr/local/share/jupyter/kernels");
    search_folder(&s, "/usr/share/jupyter/kernels");
    if (s.error < 0)
        return err_set(e, -s.error, "no memory for kernelspecs");
    qsort(s.specs, s.count, sizeof(*s.specs), by_name);
    *ret = s.specs;
    *ret_count = s.count;
    return 0;
}

/* --- selection --- */

static const char *known_name(struct str language)
{
    for (size_t i = 0; i < ARRAY_LEN(known_names); i++)
        if (str_eq_nocase(language, str_of(known_names[i].language)))
            return known_names[i].name;
    return "";
}

/* How well a spec fits a language; 0 = not at all. */
static int rank(const struct kernelspec *spec, struct str language)
{
    if (!str_eq_nocase(spec->language, language))
        return 0;
    if (strcmp(spec->name, known_name(language)) == 0)
        return 3;
    return str_eq_nocase(str_of(spec->name), language) ? 2 : 1;
}

static int fail_absent(const struct kernelspec *specs, size_t count, struct str what,
                       bool is_language, struct err *e)
{
    AUTO_BUF(names, 96);

    for (size_t i = 0; i < count; i++)
        if (buf_addf(&names, "%s%s", i ? ", " : "", specs[i].name) < 0)
            break;
    return err_set(
        e, ENOENT,
        "no Jupyter kernel %s '%.*s' in this image: install one with its kernelspec (for "
        "python: pip install ipykernel); there is: %s",
        is_language ? "for" : "called", STR_ARG(what), names.n ? names.p : "none");
}

int kernelspec_find(struct arena *a, const char *const *env, struct str language, const char *name,
                    const struct kernelspec **ret, struct err *e)
{
    const struct kernelspec *specs, *best = NULL;
    int best_rank = 0, r;
    size_t count;

    r = kernelspecs_list(a, env, &specs, &count, e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        int its = name ? strcmp(specs[i].name, name) == 0 : rank(&specs[i], language);

        if (its <= best_rank)
            continue;
        best_rank = its;
        best = &specs[i];
    }
    if (!best)
        return fail_absent(specs, count, name ? str_of(name) : language, !name, e);
    *ret = best;
    return 0;
}

/* --- command --- */

static const char *fill_in(struct arena *a, struct str text, const struct kernelspec *spec,
                           const char *connection_file)
{
    const struct {
        struct str name;
        const char *value;
    } rows[] = {
        {STR_INIT("{connection_file}"), connection_file},
        {STR_INIT("{resource_dir}"),    spec->dir      },
    };
    AUTO_BUF(out, ARGUMENT_BYTES_MAX + 16 * EXECD_PATH_BYTES_MAX);
    int r = 0;

    while (text.n > 0 && r >= 0) {
        size_t i = 0;

        while (i < ARRAY_LEN(rows) && !str_starts(text, rows[i].name))
            i++;
        if (i < ARRAY_LEN(rows)) {
            r = buf_add(&out, str_of(rows[i].value));
            text = str_skip(text, rows[i].name.n);
        } else {
            r = buf_add_char(&out, text.p[0]);
            text = str_skip(text, 1);
        }
    }
    return r < 0 ? NULL : arena_strdup(a, buf_str(&out));
}

/* Returns PREFIX if the spec is in PREFIX/share/jupyter/kernels/NAME. */
static bool prefix_of(const struct kernelspec *spec, struct str *ret)
{
    struct str dir = path_parent(str_of(spec->dir)), tail = STR("/share/jupyter/kernels");

    if (!str_ends(dir, tail))
        return false;
    *ret = str_make(dir.p, dir.n - tail.n);
    return true;
}

static bool find_program(const struct kernelspec *spec, const char *const *env, const char *name,
                         struct buf *out)
{
    struct str prefix;

    if (strchr(name, '/'))
        return buf_add(out, str_of(name)) == 0 && access(out->p, X_OK) == 0;
    if (str_starts(str_of(name), STR("python")) && prefix_of(spec, &prefix)) {
        if (buf_addf(out, "%.*s/bin/%s", STR_ARG(prefix), name) == 0 && access(out->p, X_OK) == 0)
            return true;
        buf_clear(out);
    }
    return command_find_program(path_env(env, STR("PATH")), name, out);
}

int kernelspec_command(struct arena *a, const struct kernelspec *spec, const char *const *env,
                       const char *connection_file, const char **ret_program,
                       const char *const **ret_argv, struct err *e)
{
    AUTO_BUF(program, EXECD_PATH_BYTES_MAX);
    const char **argv = arena_new_array(a, const char *, spec->argv_count + 1);
    const char *path;

    for (size_t i = 0; argv && i < spec->argv_count; i++) {
        argv[i] = fill_in(a, spec->argv[i], spec, connection_file);
        if (!argv[i])
            argv = NULL;
    }
    if (!argv)
        return err_set(e, ENOMEM, "no memory for the kernel's arguments");
    if (!find_program(spec, env, argv[0], &program))
        return err_set(e, ENOENT, "the kernel '%s' needs the program '%s', which is not installed",
                       spec->name, argv[0]);
    path = arena_strdup(a, buf_str(&program));
    if (!path)
        return err_set(e, ENOMEM, "no memory for the kernel's arguments");
    *ret_program = path;
    *ret_argv = argv;
    return 0;
}

/* envs_make() expands variables in lines of a file; a value of several lines is passed
 * unchanged. */
int kernelspec_env(struct arena *a, const struct kernelspec *spec, const char *const *env,
                   const char *const **ret)
{
    AUTO_BUF(file, ENV_TEXT_BYTES_MAX);
    struct json_pair *extra = arena_new_array(a, struct json_pair, spec->env_count + 1);
    size_t extra_count = 0;

    if (!extra)
        return -ENOMEM;
    for (size_t i = 0; i < spec->env_count; i++) {
        const struct json_pair *row = &spec->env[i];

        if (str_find(row->value, '\n') < row->value.n || str_find(row->key, '\n') < row->key.n)
            extra[extra_count++] = *row;
        else if (buf_addf(&file, "%.*s=%.*s\n", STR_ARG(row->key), STR_ARG(row->value)) < 0)
            return -ENOMEM;
    }
    return envs_make(a, env, buf_str(&file), extra, extra_count, ret);
}
