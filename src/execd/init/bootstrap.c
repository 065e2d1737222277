#include "execd/init/bootstrap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "execd/command/command.h"
#include "execd/core/envs.h"
#include "execd/core/path.h"
#include "execd/tree/fs.h"

#define SCRIPT      "EXECD_BOOTSTRAP_PRE_SCRIPT"
#define SCRIPT_DONE "_EXECD_PRE_SCRIPT_DONE" /* bootstrap.sh uses the same name */

enum { DIR_MODE = 0755, FILE_MODE = 0644, TEXT_BYTES_MAX = 1 << 20 };

/* $BOOTSTRAP_SHELL, else bash, else sh. */
static bool find_shell(struct buf *out)
{
    const char *chosen = getenv("BOOTSTRAP_SHELL");
    struct str path = str_of(getenv("PATH"));

    if (chosen && chosen[0])
        return buf_add(out, str_of(chosen)) == 0;
    return command_find_program(path, "bash", out) || command_find_program(path, "sh", out);
}

/* --- preparation --- */

static void make_envs_file(void)
{
    const char *name = envs_name_file();
    AUTO_BUF(dir, PATH_MAX);
    struct err e = {0};
    auto_fd fd = -EBADF;

    if (buf_add(&dir, path_parent(str_of(name))) == 0 && dir.n > 0)
        (void)!fs_make_dirs(dir.p, DIR_MODE, NULL);
    fd = fd_open_at(AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_NONBLOCK,
                    FILE_MODE, PATH_FREE, &e);
    if (fd < 0)
        log_event(LOG_WARN, "cannot create the EXECD_ENVS file, going on without it",
                  LOG_STR("reason", e.msg));
}

/* Path of our own executable. In a shell, /proc/self/exe would name the shell. */
static bool find_self(char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Returns only on failure. */
static void run_script(const char *const *argv)
{
    static const char *const code = ". \"$" SCRIPT "\"; exec \"$0\" \"$@\"";
    size_t count = 0;
    const char **args;
    char self[PATH_MAX];
    AUTO_BUF(shell, PATH_MAX);

    while (argv[count])
        count++;
    if (!find_shell(&shell) || !find_self(self)) {
        log_event(LOG_WARN, "no shell for " SCRIPT ", going on without");
        return;
    }
    args = mem_alloc((count + 4) * sizeof(*args));
    args[0] = shell.p;
    args[1] = "-c";
    args[2] = code;
    args[3] = self;
    memcpy(args + 4, argv + 1, count * sizeof(*args)); /* including the NULL */
    (void)setenv(SCRIPT_DONE, "1", 1);
    execv(shell.p, (char *const *)args);
    log_event(LOG_WARN, "cannot run a shell for " SCRIPT ", going on without",
              LOG_I64("errno", errno));
    free(args);
}

void bootstrap_prepare(const char *const *argv)
{
    const char *script = getenv(SCRIPT);

    make_envs_file();
    if (script && script[0] && !getenv(SCRIPT_DONE)) {
        if (access(script, R_OK) == 0)
            run_script(argv);
        else
            log_event(LOG_WARN, "cannot read " SCRIPT ", going on without",
                      LOG_STR("path", script));
    }
    (void)unsetenv(SCRIPT_DONE);
}

/* --- the entrypoint's command --- */

static int shell_command(struct arena *a, struct str text, const char *const **ret_argv,
                         struct err *e)
{
    const char **argv = arena_new_array(a, const char *, 4);
    AUTO_BUF(shell, PATH_MAX);

    if (!find_shell(&shell))
        return err_set(e, ENOENT, "cannot start: no shell");
    if (!argv || !(argv[0] = arena_strdup(a, buf_str(&shell))) ||
        !(argv[2] = arena_strdup(a, text)))
        return err_set(e, ENOMEM, "no memory");
    argv[1] = "-c";
    *ret_argv = argv;
    return 0;
}

int bootstrap_entry(struct arena *a, const char *const *words, const char *const **ret_argv,
                    struct err *e)
{
    static const char *const idle[] = {"tail", "-f", "/dev/null", NULL};
    const char *text = getenv("BOOTSTRAP_CMD");
    AUTO_BUF(joined, TEXT_BYTES_MAX);

    if (text && text[0])
        return shell_command(a, str_of(text), ret_argv, e);
    if (!words || !words[0]) {
        *ret_argv = idle;
        return 0;
    }
    if (strcmp(words[0], "-c") != 0) {
        *ret_argv = words;
        return 0;
    }
    for (words++; *words; words++)
        if (buf_addf(&joined, "%s%s", joined.n ? " " : "", *words) < 0)
            return err_set(e, E2BIG, "the command is too long");
    return shell_command(a, buf_str(&joined), ret_argv, e);
}
