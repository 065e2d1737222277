#include "taskexec/task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/time.h"
#include "base/tree.h"
#include "taskexec/keeper.h"

enum { SMALL_FILE_MAX = 256, KILLED_CODE = 137 };

bool task_name_is_valid(struct str name)
{
    if (!name.n || name.n > TASK_NAME_MAX || name.p[0] == '.')
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] == '/' || (unsigned char)name.p[i] < ' ' || name.p[i] == 0x7f)
            return false;
    return true;
}

struct task *task_find(const struct task_store *s, struct str name)
{
    LIST_EACH(&s->tasks, at)
    {
        struct task *t = container_of(at, struct task, link);

        if (str_eq(t->name, name))
            return t;
    }
    return NULL;
}

static bool is_over(const struct task *t)
{
    return t->phase >= TASK_SUCCEEDED;
}

static void task_free(struct task_store *s, struct task *t)
{
    list_remove(&t->link);
    s->count--;
    arena_done(&t->arena);
    free(t);
}

/* --- on disk --- */

static int task_dir(const struct task_store *s, const struct task *t, struct err *e)
{
    return fd_open_at(s->dir, t->name.p, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
}

static const char *const asked[] = {"name", "process", "podTemplateSpec"};

static void write_asked(struct json_writer *w, const struct task *t)
{
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        const struct json *v = json_get(t->object, str_of(asked[i]));

        if (!v || v->type == JSON_NULL)
            continue;
        json_write_key(w, str_of(asked[i]));
        json_write_value(w, v);
    }
    if (t->deleting_us)
        json_member_time(w, STR("deletionTimestamp"), t->deleting_us);
}

static int task_save(const struct task_store *s, const struct task *t, struct err *e)
{
    auto_fd dir = task_dir(s, t, e);
    AUTO_BUF(text, TASK_BYTES_MAX * 2);
    struct json_writer w;

    if (dir < 0)
        return dir;
    json_write_begin(&w, &text);
    json_write_object(&w);
    write_asked(&w, t);
    if (t->timed_out)
        json_member_bool(&w, STR("timedOut"), true);
    json_write_object_end(&w);
    if (json_write_end(&w) < 0)
        return err_set(e, EMSGSIZE, "the task '%s' is too large", t->name.p);
    return io_write_file_atomic(dir, "task.json", buf_str(&text), 0600, e);
}

static int64_t time_of_file(int dir, const char *name)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return (int64_t)st.st_mtim.tv_sec * TIME_US_PER_S + st.st_mtim.tv_nsec / 1000;
}

/* The pid of the keeper, if it still runs: a pid that was given away again is another process. */
static pid_t keeper_pid(int dir)
{
    AUTO_BUF(text, SMALL_FILE_MAX);
    struct str rest, line;
    uint64_t pid, ticks, now;

    if (io_read_regular(dir, "pid", SMALL_FILE_MAX, &text, NULL) < 0)
        return 0;
    rest = buf_str(&text);
    if (!str_cut(&rest, '\n', &line) || str_to_u64_range(line, 1, INT32_MAX, &pid) < 0 ||
        !str_cut(&rest, '\n', &line) || str_to_u64(line, &ticks) < 0)
        return 0;
    if (proc_start_time((pid_t)pid, &now) < 0 || now != ticks)
        return 0;
    return (pid_t)pid;
}

static bool read_exit(int dir, int *ret)
{
    AUTO_BUF(text, SMALL_FILE_MAX);
    uint64_t n;

    if (io_read_regular(dir, "exit", SMALL_FILE_MAX, &text, NULL) < 0 ||
        str_to_u64_range(str_trim(str_make(text.p, str_find(buf_str(&text), '\n'))), 0, 255, &n) <
            0)
        return false;
    *ret = (int)n;
    return true;
}

static void task_inspect(const struct task_store *s, struct task *t)
{
    auto_fd dir = task_dir(s, t, NULL);
    int code;

    if (dir < 0 || (is_over(t) && t->finished_us && t->phase != TASK_TIMEOUT))
        return;
    t->started_us = time_of_file(dir, "pid");
    t->reason = "";
    t->pid = 0;
    if (read_exit(dir, &code)) {
        t->exit_code = code;
        t->finished_us = time_of_file(dir, "exit");
        t->phase = code == 0 ? TASK_SUCCEEDED : TASK_FAILED;
    } else {
        t->pid = keeper_pid(dir);
        t->phase = t->pid ? TASK_RUNNING : t->started_us ? TASK_FAILED : TASK_PENDING;
        if (t->phase == TASK_FAILED) {
            t->exit_code = KILLED_CODE;
            t->reason = "ProcessCrashed";
            t->finished_us = t->finished_us ? t->finished_us : time_wall_us();
        }
    }
    if (t->phase == TASK_RUNNING && t->timeout_s &&
        time_wall_us() > t->started_us + t->timeout_s * TIME_US_PER_S && !t->timed_out) {
        t->timed_out = true;
        t->finished_us = time_wall_us();
        if (task_save(s, t, NULL) < 0)
            log_event(LOG_WARN, "a time-out could not be stored", LOG_STR("task", t->name));
    }
    if (t->timed_out) {
        t->phase = TASK_TIMEOUT;
        t->exit_code = KILLED_CODE;
        t->reason = "TaskTimeout";
    }
}

/* --- reading --- */

static int task_read(struct task *t, struct str text, struct err *e)
{
    struct str deleted;
    struct json *v;
    int r =
        json_parse(&t->arena, text, &(struct json_limits){.text_bytes_max = TASK_BYTES_MAX}, &v, e);

    if (r < 0)
        return r;
    if (json_to_str(json_get(v, STR("name")), &t->name) < 0 || !task_name_is_valid(t->name))
        return err_set(e, EINVAL,
                       "a task needs a name that is one component of a path, of at most "
                       "%d bytes, and does not begin with a dot",
                       TASK_NAME_MAX);
    t->object = v;
    if (json_to_i64(json_get(json_get(v, STR("process")), STR("timeoutSeconds")), &t->timeout_s) <
            0 ||
        t->timeout_s < 0)
        t->timeout_s = 0;
    if (json_to_str(json_get(v, STR("deletionTimestamp")), &deleted) == 0)
        (void)time_parse_lenient(deleted, &t->deleting_us, NULL);
    (void)json_to_bool(json_get(v, STR("timedOut")), &t->timed_out);
    t->reason = "";
    return 0;
}

static struct task *task_new(struct task_store *s)
{
    struct task *t = mem_new(struct task);

    arena_init(&t->arena, TASK_BYTES_MAX * 16);
    list_push(&s->tasks, &t->link);
    s->count++;
    return t;
}

/* One directory of an earlier executor. */
static void task_load(struct task_store *s, const char *name)
{
    auto_fd dir = fd_open_at(s->dir, name, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, NULL);
    AUTO_BUF(text, TASK_BYTES_MAX * 2);
    struct task *t;
    bool crashed;

    if (dir < 0)
        return;
    t = task_new(s);
    if (io_read_regular(dir, "task.json", TASK_BYTES_MAX * 2, &text, NULL) < 0 ||
        task_read(t, buf_str(&text), NULL) < 0 || !str_eq(t->name, str_of(name))) {
        task_free(s, t); /* begun and not stored: nobody was told of it */
        (void)tree_remove(s->dir, name, NULL);
        return;
    }
    task_inspect(s, t);
    crashed = t->phase == TASK_FAILED && strcmp(t->reason, "ProcessCrashed") == 0;
    if (t->phase != TASK_PENDING && !crashed)
        return;
    log_event(LOG_WARN, "a task did not survive and is forgotten, to be asked for again",
              LOG_STR("task", name));
    task_free(s, t);
    (void)tree_remove(s->dir, name, NULL);
}

int task_store_open(struct task_store *s, const char *dir, const char *main_container,
                    struct err *e)
{
    struct dirent *entry;
    DIR *list;
    int r = tree_make(dir, 0755);

    *s = (struct task_store){.dir = -EBADF, .main_container = main_container};
    list_init(&s->tasks);
    if (r < 0)
        return err_sys(e, -r, "make the data directory '%s'", dir);
    s->dir = fd_open_at(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0, PATH_FREE, e);
    if (s->dir < 0)
        return s->dir;
    list = opendir(dir);
    if (!list)
        return err_sys(e, errno, "read the data directory '%s'", dir);
    while ((entry = readdir(list)) && s->count < TASKS_MAX)
        if (entry->d_name[0] != '.')
            task_load(s, entry->d_name);
    (void)closedir(list);
    return 0;
}

void task_store_close(struct task_store *s)
{
    LIST_EACH(&s->tasks, at)
    {
        task_free(s, container_of(at, struct task, link));
    }
    fd_close(s->dir);
}

/* --- changes --- */

static bool has_active(const struct task_store *s)
{
    LIST_EACH(&s->tasks, at)
    {
        const struct task *t = container_of(at, struct task, link);

        if (!is_over(t) && !t->deleting_us)
            return true;
    }
    return false;
}

static int task_check(const struct task_store *s, const struct task *t, struct err *e)
{
    const struct json *process = json_get(t->object, STR("process"));
    const struct json *pod = json_get(t->object, STR("podTemplateSpec"));

    if (s->count > TASKS_MAX)
        return err_set(e, ENOSPC, "there are already %d tasks", TASKS_MAX);
    if (pod && pod->type != JSON_NULL)
        return err_set(e, EOPNOTSUPP,
                       "podTemplateSpec: tasks that are containers are not supported; use process");
    if (!json_count(json_get(process, STR("command"))))
        return err_set(e, EINVAL, "process.command is missing: there is nothing to run");
    if (has_active(s))
        return err_set(e, EBUSY, "another task is active; one runs at a time");
    return 0;
}

int task_create(struct task_store *s, const struct json *object, struct task **ret, struct err *e)
{
    AUTO_BUF(text, TASK_BYTES_MAX);
    struct task *t = mem_new(struct task);
    struct json_writer w;
    int r;

    arena_init(&t->arena, TASK_BYTES_MAX * 16);
    list_init(&t->link);
    json_write_begin(&w, &text);
    json_write_value(&w, object);
    r = json_write_end(&w);
    r = r < 0 ? err_set(e, -r, "the task is too large") : task_read(t, buf_str(&text), e);
    t->deleting_us = 0;
    t->timed_out = false;
    if (r >= 0 && task_find(s, t->name))
        r = err_set(e, EEXIST, "there is already a task '%s'", t->name.p);
    if (r >= 0)
        r = task_check(s, t, e);
    if (r >= 0 && mkdirat(s->dir, t->name.p, 0755) < 0)
        r = err_sys(e, errno, "make the directory of task '%s'", t->name.p);
    s->count++;
    list_push(&s->tasks, &t->link);
    if (r >= 0) {
        r = task_save(s, t, e);
        if (r >= 0)
            r = keeper_start(s->dir, t->name.p, s->main_container, e);
        if (r < 0)
            (void)tree_remove(s->dir, t->name.p, NULL);
    }
    if (r < 0) {
        task_free(s, t);
        return r;
    }
    task_inspect(s, t);
    *ret = t;
    return 0;
}

int task_delete(struct task_store *s, struct task *t, struct err *e)
{
    int r;

    if (t->deleting_us)
        return 0;
    t->deleting_us = time_wall_us();
    r = task_save(s, t, e);
    if (r < 0)
        t->deleting_us = 0;
    return r;
}

static bool is_wanted(const struct json *wanted, struct str name)
{
    struct str s;

    json_each(one, wanted)
    {
        if (json_to_str(json_get(one, STR("name")), &s) == 0 && str_eq(s, name))
            return true;
    }
    return false;
}

int task_store_set(struct task_store *s, const struct json *wanted, struct err *e)
{
    int result = 0, r;

    LIST_EACH(&s->tasks, at)
    {
        struct task *t = container_of(at, struct task, link);

        r = is_wanted(wanted, t->name) ? 0 : task_delete(s, t, result ? NULL : e);
        result = result ? result : r;
    }
    json_each(one, wanted)
    {
        struct task *t;
        struct str name;

        if (json_to_str(json_get(one, STR("name")), &name) == 0 && task_find(s, name))
            continue;
        r = task_create(s, one, &t, result ? NULL : e);
        result = result ? result : (r < 0 ? r : 0);
    }
    task_store_tick(s);
    return result;
}

/* SIGTERM, and after a while SIGKILL to all of its group. */
static void task_stop(struct task *t)
{
    uint64_t now = time_mono_ns();

    if (!t->pid)
        return;
    if (!t->stop_ns) {
        t->stop_ns = now;
        (void)kill(t->pid, SIGTERM);
    } else if (now > t->stop_ns + TASK_STOP_MS * TIME_NS_PER_MS && !t->killed) {
        t->killed = true;
        (void)kill(-t->pid, SIGKILL);
    }
}

void task_store_tick(struct task_store *s)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue; /* keepers that we started; their exit files have what counts */
    LIST_EACH(&s->tasks, at)
    {
        struct task *t = container_of(at, struct task, link);

        task_inspect(s, t);
        if (t->deleting_us || t->phase == TASK_TIMEOUT)
            task_stop(t);
        if (t->deleting_us && !t->pid && (is_over(t) || t->phase == TASK_PENDING)) {
            if (tree_remove(s->dir, t->name.p, NULL) == 0)
                task_free(s, t);
        }
    }
}

/* --- writing --- */

void task_write(struct json_writer *w, const struct task *t)
{
    json_write_object(w);
    write_asked(w, t);
    json_write_key(w, STR("processStatus"));
    json_write_object(w);
    if (t->phase == TASK_PENDING) {
        json_write_key(w, STR("waiting"));
        json_write_object(w);
        json_member_string(w, STR("reason"), STR("Starting"));
        json_write_object_end(w);
    } else if (t->phase == TASK_RUNNING) {
        json_write_key(w, STR("running"));
        json_write_object(w);
        json_member_time(w, STR("startedAt"), t->started_us);
        json_write_object_end(w);
    } else {
        json_write_key(w, STR("terminated"));
        json_write_object(w);
        json_member_i64(w, STR("exitCode"), t->exit_code);
        if (t->exit_code > 128)
            json_member_i64(w, STR("signal"), t->exit_code - 128);
        json_member_string(w, STR("reason"),
                           str_of(t->reason[0]        ? t->reason
                                  : t->exit_code == 0 ? "Completed"
                                                      : "Error"));
        json_member_time(w, STR("startedAt"), t->started_us);
        json_member_time(w, STR("finishedAt"), t->finished_us);
        json_write_object_end(w);
    }
    json_write_object_end(w);
    json_write_object_end(w);
}

void task_store_write(struct json_writer *w, const struct task_store *s)
{
    json_write_array(w);
    LIST_EACH(&s->tasks, at)
    {
        task_write(w, container_of(at, struct task, link));
    }
    json_write_array_end(w);
}
