/* task.h - tasks: what a task is, where it is stored, how it stands.
 *
 * A task is a directory below the data directory, so that it survives the executor:
 *
 *   <name>/task.json   what was asked for, and whether it is being deleted or ran out of time
 *   <name>/pid         pid and start time of its keeper (keeper.h), one in a line
 *   <name>/exit        its exit status, once it ended
 *   <name>/stdout.log, <name>/stderr.log
 *
 * Loop thread only. */
#pragma once

#include <sys/types.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/list.h"
#include "base/map.h"

enum {
    TASKS_MAX = 256,
    TASK_NAME_MAX = 253,
    TASK_BYTES_MAX = 1 << 20,
    TASK_STOP_MS = 10 * 1000, /* from SIGTERM to SIGKILL */
};

enum task_phase { TASK_PENDING, TASK_RUNNING, TASK_SUCCEEDED, TASK_FAILED, TASK_TIMEOUT };

struct task {
    struct list link;
    struct arena arena;
    struct str name;
    const struct json *object; /* as given; without status */
    int64_t timeout_s;         /* 0 = none */
    int64_t deleting_us;       /* 0 = not being deleted */
    bool timed_out;
    /* as last inspected */
    enum task_phase phase;
    int exit_code;
    const char *reason; /* "TaskTimeout", "ProcessCrashed", or "" */
    int64_t started_us, finished_us;
    pid_t pid;
    uint64_t stop_ns; /* when SIGTERM was sent; 0 = not yet */
    bool killed;
};

struct task_store {
    int dir; /* the data directory */
    struct list tasks;
    size_t count;
    const char *main_container; /* sidecar mode: its name; NULL = plain */
};

/* Makes the directory and reads what is in it. Tasks that were under way and cannot be
 * continued are
 * removed, so that they are asked for again. */
int task_store_open(struct task_store *s, const char *dir, const char *main_container,
                    struct err *e);
void task_store_close(struct task_store *s);

struct task *task_find(const struct task_store *s, struct str name);
/* Stores and starts a task. -EINVAL for one that makes no sense, -EEXIST for a name that is taken,
 * -EBUSY while another task is active, -EOPNOTSUPP for a container task. */
int task_create(struct task_store *s, const struct json *object, struct task **ret, struct err *e);
/* Marks it; task_store_tick stops and removes it. */
int task_delete(struct task_store *s, struct task *t, struct err *e);
/* Makes `wanted`, an array of tasks, the whole set. The first error is returned, after all else
 * was
 * done. */
int task_store_set(struct task_store *s, const struct json *wanted, struct err *e);
/* Looks at all tasks: stops what must stop, removes what is over and deleted. */
void task_store_tick(struct task_store *s);

void task_write(struct json_writer *w, const struct task *t);             /* with its status */
void task_store_write(struct json_writer *w, const struct task_store *s); /* an array */

bool task_name_is_valid(struct str name); /* one component of a path, not hidden */
