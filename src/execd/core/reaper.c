#include "execd/core/reaper.h"

#include <sys/wait.h>

static struct list *bucket_of(struct reaper *r, pid_t pid)
{
    return &r->watched[(unsigned)pid % REAPER_BUCKETS];
}

void reaper_init(struct reaper *r)
{
    for (size_t i = 0; i < REAPER_BUCKETS; i++)
        list_init(&r->watched[i]);
}

void reaper_watch(struct reaper *r, struct reaper_child *c, pid_t pid,
                  void (*on_exit)(struct reaper_child *, const struct proc_exit *))
{
    c->pid = pid;
    c->on_exit = on_exit;
    list_push(bucket_of(r, pid), &c->link);
}

void reaper_unwatch(struct reaper_child *c)
{
    if (c->pid == 0)
        return;
    list_remove(&c->link);
    c->pid = 0;
}

static void reaper_tell(struct reaper *r, pid_t pid, const struct proc_exit *how)
{
    LIST_EACH(bucket_of(r, pid), at)
    {
        struct reaper_child *c = container_of(at, struct reaper_child, link);

        if (c->pid != pid)
            continue;
        reaper_unwatch(c);
        c->on_exit(c, how);
        return;
    }
}

int reaper_reap(struct reaper *r)
{
    siginfo_t info = {0};
    struct proc_exit how;

    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0)
        return -errno;
    if (info.si_pid == 0)
        return 0;
    how = (struct proc_exit){
        .by_signal = info.si_code != CLD_EXITED,
        .core_dumped = info.si_code == CLD_DUMPED,
        .code = info.si_status,
    };
    reaper_tell(r, info.si_pid, &how);
    return 1;
}
