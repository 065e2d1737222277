#include "execd/code/contexts.h"

#include <errno.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "execd/core/exit_text.h"
#include "execd/metrics/telemetry.h"

enum {
    MEMORY_BYTES_MAX = 4 << 20,   /* of a context: mostly its environment */
    WAITING_BYTES_MAX = 16 << 20, /* code of all waiting cells */
    VALUE_BYTES_MAX = 64 << 10,   /* of an error text that is extended */
};

/* In the order in which they are tried. */
static const struct {
    const char *name;
    const struct kernel_ops *ops;
} kinds[] = {
    {"driver",  &kernel_driver },
    {"shell",   &kernel_shell  },
    {"jupyter", &kernel_jupyter},
};

struct contexts {
    struct loop *loop;
    struct reaper *reaper;
    struct child_place place;
    struct map by_id;
    size_t waiting_bytes;        /* code of waiting cells */
    struct telemetry *telemetry; /* NULL = none */
};

void contexts_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                  struct contexts **ret)
{
    struct contexts *all = mem_new(struct contexts);

    *all = (struct contexts){.loop = loop, .reaper = reaper, .place = *place};
    map_init(&all->by_id, CONTEXTS_MAX, NULL);
    *ret = all;
}

void contexts_observe(struct contexts *all, struct telemetry *t)
{
    all->telemetry = t;
}

struct context *contexts_find(const struct contexts *all, struct str id)
{
    return map_get(&all->by_id, id);
}

struct context *contexts_next(const struct contexts *all, size_t *at)
{
    void *value;

    return map_next(&all->by_id, at, NULL, &value) ? value : NULL;
}

/* Ends the cell: it has no follower from here on. */
static const struct kernel_owner *take_follower(struct context *c, bool success)
{
    const struct kernel_owner *follower = c->follower;

    if (c->busy)
        telemetry_executed(c->all->telemetry, TELEMETRY_RUN_CODE, success && !c->failed,
                           loop_now_ns(c->all->loop) - c->begin_ns, &c->span);
    c->follower = NULL;
    c->busy = c->doubtful = c->abandoned = false;
    loop_timer_stop(c->all->loop, &c->grace);
    return follower;
}

/* --- the waiting cell --- */

static int next_wait(struct context *c, struct str code, uint64_t timeout_ms,
                     const struct kernel_owner *follower, void *user, struct err *e)
{
    struct context_next *next = &c->next;

    if (next->follower || code.n > WAITING_BYTES_MAX - c->all->waiting_bytes)
        return err_set(e, EBUSY, "session is busy");
    buf_init(&next->code, WAITING_BYTES_MAX);
    if (buf_add(&next->code, code) < 0)
        return err_set(e, ENOMEM, "no memory for a cell of %zu bytes", code.n);
    c->all->waiting_bytes += code.n;
    next->timeout_ms = timeout_ms;
    next->follower = follower;
    next->user = user;
    return 0;
}

/* Removes the waiting cell. The caller frees the code. */
static struct context_next next_take(struct context *c)
{
    struct context_next next = c->next;

    c->all->waiting_bytes -= next.follower ? next.code.n : 0;
    c->next = (struct context_next){0};
    return next;
}

static void next_drop(struct context *c)
{
    struct context_next next = next_take(c);

    buf_done(&next.code);
}

static void next_die(struct context *c, const char *why)
{
    struct context_next next = next_take(c);

    buf_done(&next.code);
    if (next.follower)
        next.follower->on_death(next.user, why);
}

static void next_interrupt(struct context *c)
{
    struct context_next next = next_take(c);
    struct str value = STR("interrupted before the cell began");
    struct json line = {.type = JSON_STRING, .string = value};
    struct json traceback = {.type = JSON_ARRAY, .first = &line, .count = 1};

    buf_done(&next.code);
    next.follower->on_error(next.user, STR("KeyboardInterrupt"), value, &traceback);
    next.follower->on_done(next.user, KERNEL_FAILED);
}

/* Starts the waiting cell: the one before it, or its process, ended. */
static void next_begin(struct context *c)
{
    struct context_next next = next_take(c);
    char text[CONTEXT_REVIVAL_MAX];
    struct err e = {0};
    int r;

    if (!next.follower)
        return;
    r = context_revive(c, &e);
    if (r > 0) {
        context_revival_text(c, text);
        next.follower->on_stream(next.user, "stderr", str_of(text));
    }
    if (r >= 0)
        r = context_run(c, buf_str(&next.code), next.timeout_ms, next.follower, next.user, &e);
    buf_done(&next.code);
    if (r < 0)
        next.follower->on_death(next.user, e.msg);
}

/* --- events of the kernel --- */

static void context_on_stream(void *user, const char *type, struct str text)
{
    struct context *c = user;

    if (c->follower)
        c->follower->on_stream(c->user, type, text);
}

static void context_on_result(void *user, uint64_t count, const struct json *bundle)
{
    struct context *c = user;

    if (c->follower)
        c->follower->on_result(c->user, count, bundle);
}

static void context_on_display(void *user, struct str id, bool update, const struct json *bundle)
{
    struct context *c = user;

    if (c->follower)
        c->follower->on_display(c->user, id, update, bundle);
}

static void context_add_memory(const struct context *c, struct buf *out, bool killed)
{
    exit_text_add_memory(out, &c->all->place.memory, c->oom_kills, killed);
}

/* If the OOM killer killed a process of a failed cell (often a compiler), this is added to the
 * error's value and put in front of its traceback. */
static void context_on_error(void *user, struct str name, struct str value,
                             const struct json *traceback)
{
    struct context *c = user;
    AUTO_BUF(text, VALUE_BYTES_MAX);
    struct json line = {.type = JSON_STRING, .next = traceback ? traceback->first : NULL};
    struct json list = {.type = JSON_ARRAY, .first = &line, .count = json_count(traceback) + 1};

    c->failed = true;
    if (!c->follower)
        return;
    if (buf_add(&text, value.n > 0 ? value : name) == 0) {
        size_t had = text.n;

        context_add_memory(c, &text, false);
        if (text.n > had) {
            line.string = value = buf_str(&text);
            traceback = &list;
        }
    }
    c->follower->on_error(c->user, name, value, traceback);
}

static void context_on_done(void *user, enum kernel_end end)
{
    struct context *c = user;
    const struct kernel_owner *follower = take_follower(c, end != KERNEL_TIMEOUT);

    if (follower)
        follower->on_done(c->user, end);
    next_begin(c);
}

/* Calls the callback that waits for the start. False if there is none. */
static bool context_settle(struct context *c, const char *why)
{
    context_settled_fn *settled = c->settled;

    c->settled = NULL;
    if (settled)
        settled(c->settled_user, why);
    return settled;
}

static void context_on_ready(void *user)
{
    (void)context_settle(user, NULL);
}

static void context_on_death(void *user, const char *why)
{
    struct context *c = user;
    const struct kernel_owner *follower = take_follower(c, false);
    AUTO_BUF(text, VALUE_BYTES_MAX);

    if (buf_addf(&text, "%s", why) == 0)
        context_add_memory(c, &text, true);
    (void)snprintf(c->why, sizeof(c->why), "%s", text.p);
    c->dead = true;
    c->running->ops->free(c->running);
    c->running = NULL;
    if (follower)
        follower->on_death(c->user, c->why);
    if (context_settle(c, c->why))
        context_free(c);
    else
        next_begin(c);
}

static const struct kernel_owner context_owner = {
    .on_stream = context_on_stream,
    .on_result = context_on_result,
    .on_display = context_on_display,
    .on_error = context_on_error,
    .on_done = context_on_done,
    .on_death = context_on_death,
    .on_ready = context_on_ready,
};

/* --- start and end --- */

/* Tries one kind after the other. The error is that of the first kind that knows the language. */
static int start_any(struct context *c, const struct kernel_conf *conf, struct err *e)
{
    bool wanted_is_known = c->wanted[0] == '\0', asked_all = wanted_is_known;
    size_t last = ARRAY_LEN(kinds) - 1; /* knows no languages itself, only kernelspecs */
    int why = -ENOTSUP;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct err told = {0};
        int r;

        if (c->wanted[0] && strcmp(c->wanted, kinds[i].name) != 0)
            continue;
        wanted_is_known = true;
        r = kinds[i].ops->start(conf, str_of(c->language), &c->running, &told);
        if (r >= 0)
            return 0;
        if (why == -ENOTSUP && r == -ENOENT && asked_all && i == last)
            return err_set(e, ENOENT, "unknown language: %s; %s", c->language, told.msg);
        if (why == -ENOTSUP && r != -ENOTSUP) {
            why = r;
            *e = told;
        }
    }
    if (!wanted_is_known)
        return err_set(e, EINVAL, "unknown kernel: %s", c->wanted);
    if (why == -ENOTSUP && !asked_all)
        return err_set(e, ENOTSUP, "the kernel %s does not run %s", c->wanted, c->language);
    return why == -ENOTSUP ? err_set(e, ENOTSUP, "unknown language: %s", c->language) : why;
}

static int context_start(struct context *c, struct err *e)
{
    struct kernel_conf conf = {
        .loop = c->all->loop,
        .reaper = c->all->reaper,
        .place = c->all->place,
        .env = c->env,
        .cwd = c->cwd,
        .spec = c->spec,
        .owner = &context_owner,
        .user = c,
    };
    struct err told = {0};
    int r;

    conf.place.memory = (struct child_memory){0}; /* reported here for all kinds of kernels */
    c->oom_kills = exit_oom_kills(&c->all->place.memory);
    r = start_any(c, &conf, &told);
    if (r < 0)
        return err_set(e, -r, "%s", told.msg);
    (void)snprintf(c->kernel, sizeof(c->kernel), "%s", c->running->name);
    c->dead = false;
    return 0;
}

static int copy_env(struct context *c, const char *const *env)
{
    size_t n = 0;
    const char **rows;

    while (env[n])
        n++;
    rows = arena_new_array(&c->memory, const char *, n + 1);
    if (!rows)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        rows[i] = arena_strdup(&c->memory, str_of(env[i]));
        if (!rows[i])
            return -ENOMEM;
    }
    c->env = rows;
    return 0;
}

static int context_copy(struct context *c, const struct context_spec *spec)
{
    struct str rest = spec->kernel, kind = STR("");

    (void)str_cut(&rest, ':', &kind);
    c->language = arena_strdup(&c->memory, spec->language);
    c->wanted = arena_strdup(&c->memory, kind);
    c->spec = rest.n ? arena_strdup(&c->memory, rest) : NULL;
    c->cwd = spec->cwd ? arena_strdup(&c->memory, str_of(spec->cwd)) : NULL;
    if (!c->language || !c->wanted || (rest.n && !c->spec) || (spec->cwd && !c->cwd))
        return -ENOMEM;
    return copy_env(c, spec->env);
}

static void context_drop(struct context *c)
{
    loop_timer_stop(c->all->loop, &c->grace);
    next_drop(c);
    if (c->running)
        c->running->ops->free(c->running);
    arena_done(&c->memory);
    free(c);
}

int context_new(struct contexts *all, const struct context_spec *spec, struct context **ret,
                struct err *e)
{
    struct context *c;
    int r;

    if (all->by_id.n >= CONTEXTS_MAX)
        return err_set(e, EAGAIN, "there are %d contexts already", CONTEXTS_MAX);
    c = mem_new(struct context);
    *c = (struct context){.all = all, .is_default = spec->is_default};
    arena_init(&c->memory, MEMORY_BYTES_MAX);
    id_uuid(c->id);
    r = context_copy(c, spec);
    if (r < 0)
        (void)err_set(e, -r, "no memory for a context");
    else
        r = context_start(c, e);
    if (r >= 0) {
        r = map_add(&all->by_id, str_of(c->id), c);
        if (r < 0)
            (void)err_set(e, -r, "no memory for another context");
    }
    if (r < 0) {
        context_drop(c);
        return r;
    }
    *ret = c;
    return 0;
}

bool context_await(struct context *c, context_settled_fn *settled, void *user)
{
    if (!c->running || !c->running->unsure)
        return false;
    c->settled = settled;
    c->settled_user = user;
    return true;
}

void context_free(struct context *c)
{
    const struct kernel_owner *follower = take_follower(c, false);

    (void)map_take(&c->all->by_id, str_of(c->id));
    if (follower)
        follower->on_death(c->user, "the context was deleted");
    next_die(c, "the context was deleted");
    (void)context_settle(c, "the context was deleted");
    context_drop(c);
}

void contexts_free(struct contexts *all)
{
    size_t at = 0;
    struct context *c;

    if (!all)
        return;
    while ((c = contexts_next(all, &at)))
        context_drop(c);
    map_done(&all->by_id);
    free(all);
}

void contexts_end_cells(struct contexts *all, const char *why)
{
    size_t at = 0;
    struct context *c;

    while ((c = contexts_next(all, &at))) {
        const struct kernel_owner *follower = take_follower(c, false);

        if (follower)
            follower->on_death(c->user, why);
        next_die(c, why);
        if (context_settle(c, why))
            context_free(c);
    }
}

struct context *contexts_default(const struct contexts *all, struct str language, struct str kernel)
{
    struct str spec = kernel, kind = STR("");
    size_t at = 0;
    struct context *c;

    (void)str_cut(&spec, ':', &kind);
    while ((c = contexts_next(all, &at)))
        if (c->is_default && str_eq(str_of(c->language), language) &&
            str_eq(str_of(c->wanted), kind) && str_eq(str_of(c->spec), spec))
            return c;
    return NULL;
}

int context_revive(struct context *c, struct err *e)
{
    int r;

    if (c->running)
        return 0;
    r = context_start(c, e);
    return r < 0 ? r : 1;
}

void context_revival_text(const struct context *c, char text[CONTEXT_REVIVAL_MAX])
{
    (void)snprintf(text, CONTEXT_REVIVAL_MAX,
                   "execd: the process of this context had ended (%s); a new one was started, "
                   "which knows nothing of earlier cells\n",
                   c->why);
}

/* --- cells --- */

int context_run(struct context *c, struct str code, uint64_t timeout_ms,
                const struct kernel_owner *follower, void *user, struct err *e)
{
    int r;

    if (c->doubtful || c->abandoned)
        return next_wait(c, code, timeout_ms, follower, user, e);
    if (c->busy)
        return err_set(e, EBUSY, "session is busy");
    if (!c->running)
        return err_set(e, EPIPE, "%s", c->why);
    c->oom_kills = exit_oom_kills(&c->all->place.memory);
    r = c->running->ops->run(c->running, code, timeout_ms, e);
    if (r < 0)
        return r;
    c->busy = true;
    c->failed = false;
    c->begin_ns = loop_now_ns(c->all->loop);
    c->span = trace_begin(trace_current());
    c->follower = follower;
    c->user = user;
    return 0;
}

void context_pause(struct context *c, bool on)
{
    if (c->running)
        c->running->ops->pause(c->running, on);
}

static void context_on_grace_over(struct loop_timer *t)
{
    struct context *c = container_of(t, struct context, grace);
    char why[CONTEXT_WHY_MAX];

    (void)snprintf(why, sizeof(why),
                   "the client left, and the cell did not end on an interrupt within %u s: "
                   "signal: killed",
                   c->running->ops->grace_ms / 1000);
    context_on_death(c, why);
}

static bool is_next(const struct context *c, const void *user)
{
    return c->next.follower && c->next.user == user;
}

void context_doubt(struct context *c, const void *user)
{
    if (!is_next(c, user))
        c->doubtful = true;
}

void context_leave(struct context *c, const void *user)
{
    if (is_next(c, user)) {
        next_drop(c);
        return;
    }
    c->follower = NULL;
    c->abandoned = true;
    if (c->running->ops->grace_ms > 0)
        loop_timer_after(c->all->loop, &c->grace, c->running->ops->grace_ms, context_on_grace_over);
    context_pause(c, false);
    (void)c->running->ops->interrupt(c->running); /* the cell may have ended by now */
}

void context_interrupt(struct context *c)
{
    if (c->next.follower)
        next_interrupt(c);
    if (c->running)
        (void)c->running->ops->interrupt(c->running);
}
