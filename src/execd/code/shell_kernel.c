/* shell_kernel.c - runs bash cells in a shell that lives as long as the context. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "execd/code/kernel.h"
#include "execd/shell/shell.h"

/* The first bytes of an incomplete UTF-8 character. */
struct held {
    char bytes[UTF8_BYTES_MAX];
    size_t n;
};

struct shell_kernel {
    struct kernel kernel; /* first, as kernel.h requires */
    struct loop *loop;
    const struct kernel_owner *owner;
    void *user;
    struct shell *shell;
    struct held held[SHELL_STREAMS];
    struct loop_timer resume; /* no callback may come from within the owner's call */
    bool dead, paused;
};

static struct shell_kernel *shell_kernel_of(struct kernel *k)
{
    return container_of(k, struct shell_kernel, kernel);
}

/* --- events of the shell --- */

static const char *const types[] = {"stdout", "stderr"};

static void give(struct shell_kernel *k, enum shell_stream from, struct str text)
{
    if (text.n > 0)
        k->owner->on_stream(k->user, types[from], text);
}

/* Completes a character that was held back. Returns the rest of the data. */
static struct str give_held(struct shell_kernel *k, enum shell_stream from, struct str data)
{
    struct held *h = &k->held[from];

    while (h->n > 0 && data.n > 0) {
        h->bytes[h->n++] = data.p[0];
        data = str_skip(data, 1);
        if (h->n < UTF8_BYTES_MAX && utf8_cut_tail(str_make(h->bytes, h->n)) == h->n)
            continue;
        give(k, from, str_make(h->bytes, h->n));
        h->n = 0;
    }
    return data;
}

static bool kernel_on_output(void *user, enum shell_stream from, struct str data)
{
    struct shell_kernel *k = user;
    struct held *h = &k->held[from];
    size_t cut;

    data = give_held(k, from, data);
    cut = utf8_cut_tail(data);
    give(k, from, str_make(data.p, data.n - cut));
    if (cut > 0) {
        memcpy(h->bytes, data.p + data.n - cut, cut);
        h->n = cut;
    }
    return !k->paused;
}

static void kernel_tell_error(struct shell_kernel *k, struct str name, const struct shell_end *end)
{
    struct json line = {.type = JSON_STRING, .string = str_of(end->error)};
    struct json lines = {.type = JSON_ARRAY, .first = &line, .count = 1};
    char value[16];

    (void)snprintf(value, sizeof(value), "%d", end->exit_code);
    k->owner->on_error(k->user, name, str_of(value), &lines);
}

static void kernel_tell_death(struct shell_kernel *k, const char *why)
{
    char text[sizeof(((struct shell_end *)NULL)->error) + 32];

    k->dead = true;
    (void)snprintf(text, sizeof(text), "the shell ended: %s", *why ? why : "exit status 0");
    k->owner->on_death(k->user, text);
}

static void kernel_on_end(void *user, const struct shell_end *end)
{
    struct shell_kernel *k = user;
    enum kernel_end how = end->error[0] ? KERNEL_FAILED : KERNEL_OK;

    for (size_t i = 0; i < SHELL_STREAMS; i++) {
        give(k, (enum shell_stream)i, str_make(k->held[i].bytes, k->held[i].n));
        k->held[i].n = 0;
    }
    if (end->died || !end->started) {
        kernel_tell_death(k, end->error);
        return;
    }
    if (end->timed_out)
        how = KERNEL_TIMEOUT;
    else if (end->exit_code < 0)
        kernel_tell_error(k, STR("KeyboardInterrupt"), end);
    else if (how == KERNEL_FAILED)
        kernel_tell_error(k, STR("CommandExecError"), end);
    k->owner->on_done(k->user, how);
}

static void kernel_on_down(void *user, const char *why)
{
    kernel_tell_death(user, why);
}

static const struct shell_owner kernel_shell_owner = {
    .on_output = kernel_on_output,
    .on_end = kernel_on_end,
    .on_down = kernel_on_down,
};

/* --- kernel_ops --- */

static void shell_kernel_free(struct kernel *kernel)
{
    struct shell_kernel *k;

    if (!kernel)
        return;
    k = shell_kernel_of(kernel);
    loop_timer_stop(k->loop, &k->resume);
    shell_free(k->shell);
    free(k);
}

static int shell_kernel_start(const struct kernel_conf *conf, struct str language,
                              struct kernel **ret, struct err *e)
{
    struct shell_kernel *k;
    struct shell_conf shell = {
        .loop = conf->loop,
        .reaper = conf->reaper,
        .place = conf->place,
        .cwd = conf->cwd,
        .owner = &kernel_shell_owner,
    };
    int r;

    if (!str_eq(language, STR("bash")))
        return err_set(e, ENOTSUP, "a shell runs no %.*s", STR_ARG(language));
    k = mem_new(struct shell_kernel);
    k->kernel = (struct kernel){&kernel_shell, "shell"};
    k->loop = conf->loop;
    k->owner = conf->owner;
    k->user = conf->user;
    shell.user = k;
    r = shell_new(&shell, &k->shell, e);
    if (r >= 0)
        r = shell_start(k->shell, conf->env, "bash", e);
    if (r == -ENOENT)
        (void)err_set(e, ENOENT, "bash is not in this image: install bash");
    if (r < 0) {
        shell_kernel_free(&k->kernel);
        return r;
    }
    *ret = &k->kernel;
    return 0;
}

static int shell_kernel_run(struct kernel *kernel, struct str code, uint64_t timeout_ms,
                            struct err *e)
{
    struct shell_kernel *k = shell_kernel_of(kernel);
    struct shell_job job = {.code = code, .timeout_ms = timeout_ms};

    if (k->dead)
        return err_set(e, EPIPE, "the shell has ended");
    if (str_has_nul(code))
        return err_set(e, EINVAL, "the code holds a NUL byte, which no shell reads");
    return shell_run(k->shell, &job, e);
}

static int shell_kernel_interrupt(struct kernel *kernel)
{
    shell_interrupt(shell_kernel_of(kernel)->shell);
    return 0;
}

static void kernel_on_resume(struct loop_timer *t)
{
    shell_resume(container_of(t, struct shell_kernel, resume)->shell);
}

static void shell_kernel_pause(struct kernel *kernel, bool on)
{
    struct shell_kernel *k = shell_kernel_of(kernel);

    k->paused = on;
    if (on) {
        loop_timer_stop(k->loop, &k->resume);
        shell_pause(k->shell);
    } else {
        loop_timer_set(k->loop, &k->resume, loop_now_ns(k->loop), kernel_on_resume);
    }
}

const struct kernel_ops kernel_shell = {
    .start = shell_kernel_start,
    .run = shell_kernel_run,
    .interrupt = shell_kernel_interrupt,
    .pause = shell_kernel_pause,
    .free = shell_kernel_free,
};
