/* plugin.c - exec plugins of a kubeconfig: a program that prints credentials (ExecCredential). */
#include <errno.h>
#include <signal.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/time.h"
#include "kube/config_internal.h"
#include "kube/object.h"

extern char **environ;

enum {
    PLUGIN_MS = 30 * 1000,
    ENV_MAX = 4096,
    ANSWER_BYTES_MAX = 1 << 20,
    WORDS_MAX = 512,
};

/* KUBERNETES_EXEC_INFO: what the plugin is asked. */
static const char *exec_info(struct kube_config *c, struct arena *a)
{
    AUTO_BUF(json, 64 << 10);
    struct json_writer w;

    (void)buf_add(&json, STR("KUBERNETES_EXEC_INFO="));
    json_write_begin(&w, &json);
    json_write_object(&w);
    json_member_string(&w, STR("apiVersion"), str_of(c->plugin.api_version));
    json_member_string(&w, STR("kind"), STR("ExecCredential"));
    json_write_key(&w, STR("spec"));
    json_write_object(&w);
    json_member_bool(&w, STR("interactive"), false);
    json_write_object_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w) < 0 ? NULL : arena_strdup(a, buf_str(&json));
}

/* Our environment, then the plugin's own. */
static int make_env(struct kube_config *c, struct arena *a, const char *const **ret, struct err *e)
{
    const char **env = arena_new_array(a, const char *, ENV_MAX + 1);
    size_t n = 0;

    if (!env)
        return err_set(e, ENOMEM, "no memory for the environment");
    for (char **at = environ; at && *at && n < ENV_MAX - WORDS_MAX; at++)
        env[n++] = *at;
    for (const char **at = c->plugin.env; *at; at++)
        env[n++] = *at;
    env[n] = exec_info(c, a);
    if (!env[n])
        return err_set(e, ENOMEM, "no memory for the environment");
    *ret = env;
    return 0;
}

/* The shell looks for the program in PATH. */
static int start(struct kube_config *c, int out, struct proc *ret, struct err *e)
{
    static const char *const head[] = {"/bin/sh", "-c", "exec \"$0\" \"$@\""};
    AUTO_ARENA(arena, 1 << 20);
    const char **argv = arena_new_array(&arena, const char *, WORDS_MAX);
    struct proc_spec spec = PROC_SPEC("/bin/sh", argv);
    size_t n = 0;
    int r = make_env(c, &arena, &spec.env, e);

    if (r < 0 || !argv)
        return r < 0 ? r : err_set(e, ENOMEM, "no memory for the arguments");
    for (; n < ARRAY_LEN(head); n++)
        argv[n] = head[n];
    for (size_t i = 0; c->plugin.argv[i] && n < WORDS_MAX - 1; i++)
        argv[n++] = c->plugin.argv[i];
    spec.stdio[1] = out;
    spec.stdio[2] = 2; /* its complaints are for the same reader as ours */
    spec.flags = PROC_NEW_SESSION;
    return proc_spawn(&spec, ret, e);
}

static int run(struct kube_config *c, struct buf *answer, struct err *e)
{
    auto_fd ours = -EBADF, theirs = -EBADF;
    auto_proc proc = PROC_NONE;
    uint64_t deadline = deadline_in_ms(PLUGIN_MS);
    struct proc_exit end = {0};
    size_t n = 1;
    int r = fd_pipe(FD_PIPE_READ, &ours, &theirs, e);

    if (r == 0)
        r = start(c, theirs, &proc, e);
    if (r < 0)
        return r;
    fd_close(take_fd(&theirs));
    while (r == 0 && n) {
        char piece[4096];

        r = io_read_full(ours, piece, sizeof(piece), deadline, &n);
        if (r == 0)
            r = buf_add(answer, str_make(piece, n));
        mem_wipe(piece, sizeof(piece));
        if (n < sizeof(piece))
            break;
    }
    if (r == 0)
        r = proc_wait(proc.pidfd, deadline, &end);
    if (r < 0) {
        (void)!proc_signal(proc.pidfd, SIGKILL);
        (void)!proc_wait(proc.pidfd, DEADLINE_NEVER, &end);
        return err_set(e, -r, "%s",
                       r == -ETIMEDOUT  ? "it did not end within 30 seconds"
                       : r == -EMSGSIZE ? "it prints too much"
                                        : "its output cannot be read");
    }
    if (end.by_signal || end.code)
        return err_set(e, EACCES, "it ended with %s %d%s%s", end.by_signal ? "signal" : "status",
                       end.code, end.code == 127 && c->plugin.hint ? ": " : "",
                       end.code == 127 && c->plugin.hint ? c->plugin.hint : "");
    return 0;
}

static int read_answer(struct str text, char **ret_token, uint64_t *ret_until, struct err *e)
{
    AUTO_ARENA(arena, ANSWER_BYTES_MAX * 4);
    struct json *root;
    struct str token, until;
    int64_t us;
    int r = json_parse(&arena, text, NULL, &root, e);

    if (r < 0)
        return r;
    token = kube_str(root, "status.token");
    until = kube_str(root, "status.expirationTimestamp");
    if (!token.n || token.n > KUBE_TOKEN_BYTES_MAX || str_has_nul(token)) {
        r = err_set(e, EBADMSG, "it printed no ExecCredential with status.token");
    } else if (until.n && time_parse(until, &us, e) < 0) {
        r = err_wrap(e, -EBADMSG, "its status.expirationTimestamp");
    } else {
        /* A while before it ends, so that it does not end on the way. */
        int64_t left_ms = until.n ? (us - time_wall_us()) / TIME_US_PER_MS - 10000 : 0;

        *ret_until =
            until.n ? deadline_in_ms(left_ms > 1000 ? (uint64_t)left_ms : 1000) : DEADLINE_NEVER;
        *ret_token = mem_alloc(token.n + 1);
        memcpy(*ret_token, token.p, token.n);
        (*ret_token)[token.n] = '\0';
    }
    arena_wipe(&arena);
    return r;
}

int kube_plugin_run(struct kube_config *c, char **ret_token, uint64_t *ret_until, struct err *e)
{
    AUTO_BUF(answer, ANSWER_BYTES_MAX);
    int r;

    buf_keep_secret(&answer);
    r = run(c, &answer, e);
    if (r == 0)
        r = read_answer(buf_str(&answer), ret_token, ret_until, e);
    return r < 0 ? err_wrap(e, r, "exec plugin '%s'", c->plugin.argv[0]) : 0;
}
