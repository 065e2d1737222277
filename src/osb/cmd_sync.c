/* cmd_sync.c - osb sync: decides what is copied where, and goes on while both sides change. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "osb/commands.h"
#include "osb/sync.h"

enum {
    QUIET_MS = 50,       /* without an event: then what changed is looked at */
    BUSY_TURNS_MAX = 20, /* of that, while events go on */
    WATCH_TRIES_MAX = 5,
    WATCH_RETRY_MS = 1000,
    WATCH_READY_TURNS = 300, /* of 100 ms */
};

/* --- deciding --- */

static enum sync_action decide_both(struct sync *s, struct sync_entry *entry)
{
    int alike;

    if (entry->local.type == SYNC_NONE && entry->remote.type == SYNC_NONE)
        return SYNC_ADOPT;
    if (entry->local.type == SYNC_NONE) /* a change is worth more than a deletion */
        return SYNC_PULL;
    if (entry->remote.type == SYNC_NONE)
        return SYNC_PUSH;
    if (entry->local.type != entry->remote.type) {
        cli_warning(s->cli, "'%s': a file on one side, a directory or link on the other; left",
                    entry->path);
        return SYNC_ADOPT;
    }
    if (entry->local.type == SYNC_DIRECTORY)
        return SYNC_ADOPT;
    if (entry->local.type == SYNC_LINK)
        return SYNC_PUSH;
    alike = sync_compare(s, entry);
    return alike == 1 ? (entry->local.mode == entry->remote.mode ? SYNC_ADOPT : SYNC_PUSH)
                      : SYNC_CONFLICT;
}

static enum sync_action decide(struct sync *s, struct sync_entry *entry)
{
    bool here = !sync_same(&entry->local, &entry->base_local);
    bool there = !sync_same(&entry->remote, &entry->base_remote);

    if (here && there)
        return decide_both(s, entry);
    if (here)
        return entry->local.type ? SYNC_PUSH : entry->remote.type ? SYNC_DELETE_THERE : SYNC_ADOPT;
    if (there && s->mirrors && entry->remote.type)
        return SYNC_DELETE_THERE;
    if (there)
        return entry->remote.type ? SYNC_PULL : entry->local.type ? SYNC_DELETE_HERE : SYNC_ADOPT;
    return SYNC_NOTHING;
}

/* Directories above what stays in the sandbox stay, too: they come back here. */
static void keep_parents(struct sync *s)
{
    for (size_t i = s->count; i > 0; i--) {
        struct sync_entry *entry = s->list[i - 1], *parent;
        struct str path = str_of(entry->path);

        if (entry->kept_there && entry->action == SYNC_DELETE_THERE)
            entry->action = s->mirrors ? SYNC_NOTHING : SYNC_PULL;
        if (entry->action == SYNC_DELETE_THERE || (!entry->remote.type && !entry->kept_there))
            continue;
        while (path.n > 0 && path.p[path.n - 1] != '/')
            path.n--;
        parent = path.n ? map_get(&s->map, str_make(path.p, path.n - 1)) : NULL;
        if (parent)
            parent->kept_there = true;
    }
}

/* One round: looks where something changed, decides, carries it out. */
static int round_of(struct sync *s)
{
    int r = s->dirty_local ? sync_scan_local(s) : 0;

    if (r == 0 && s->dirty_remote)
        r = sync_scan_remote(s);
    if (r == 0)
        r = sync_sort(s);
    if (r)
        return r;
    for (size_t i = 0; i < s->count; i++) {
        s->list[i]->action = (uint8_t)decide(s, s->list[i]);
        s->list[i]->kept_there = s->list[i]->foreign;
    }
    keep_parents(s);
    r = sync_apply(s);
    s->mirrors = false;
    return r;
}

/* --- waiting --- */

static void wake(struct sync *s)
{
    uint64_t one = 1;

    (void)!write(s->wake, &one, sizeof(one));
}

static int on_change(void *user, enum osb_change change, const char *path UNUSED,
                     const char *from UNUSED, bool is_directory UNUSED)
{
    struct sync *s = user;

    if (change == OSB_CHANGE_READY)
        s->watching = true;
    else
        s->dirty_remote = true;
    wake(s);
    return 0;
}

/* Watches the sandbox; after a break it starts again, and then all is looked at. */
static void watch_task(struct osb_client *client, void *user)
{
    struct sync *s = user;

    for (int tries = 0; tries < WATCH_TRIES_MAX; tries++) {
        int r = osb_files_watch(s->cli->sandbox, s->remote, true, on_change, s);

        if (s->watching)
            tries = 0;
        s->watching = false;
        s->watch_error = r < 0 ? r : -ECANCELED;
        if (r == -ECANCELED || r == -ENOENT || osb_sleep(client, WATCH_RETRY_MS) < 0)
            break;
        s->dirty_remote = true;
        s->watch_error = tries + 1 < WATCH_TRIES_MAX ? 0 : r;
    }
    if (!s->watch_error)
        s->watch_error = -EIO;
    wake(s);
}

/* Takes what has come: 1, or 0 when nothing came in time, or a negative errno. */
static int take_events(struct sync *s, int timeout_ms)
{
    char events[16 * 1024];
    uint64_t count;
    int r = osb_wait_fd(s->cli->client, s->epoll, POLLIN, timeout_ms);

    if (r <= 0)
        return r;
    while (read(s->inotify, events, sizeof(events)) > 0)
        s->dirty_local = true;
    (void)!read(s->wake, &count, sizeof(count));
    return 1;
}

/* Until something changed, and then until it is quiet for a moment. */
static int await_changes(struct sync *s)
{
    int r = 1;

    while (r >= 0 && !s->dirty_local && !s->dirty_remote && !s->watch_error)
        r = take_events(s, -1);
    for (int i = 0; r > 0 && i < BUSY_TURNS_MAX; i++)
        r = take_events(s, QUIET_MS);
    return r < 0 ? r : s->watch_error;
}

/* --- the command --- */

static int add_fd(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return fd < 0 ? -1 : epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static int open_all(struct sync *s, bool once)
{
    struct osb_permission root = {.path = s->remote, .mode = 0755};

    s->root = open(s->local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->root < 0)
        return cli_error(s->cli, "Sync", "'%s': %s", s->local, strerror(errno));
    if (osb_directories_make(s->cli->sandbox, &root, 1) < 0)
        return sync_failed(s);
    if (once)
        return 0;
    s->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (add_fd(s->epoll, s->inotify) < 0 || add_fd(s->epoll, s->wake) < 0)
        return cli_error(s->cli, "Sync", "inotify: %s", strerror(errno));
    return 0;
}

static int watch_failed(struct sync *s)
{
    return cli_error(s->cli, "Sync", "The watch of '%s' in the sandbox ended: %s", s->remote,
                     s->watch_error == -ENOENT ? "it is gone" : strerror(-s->watch_error));
}

/* Both sides are watched before they are looked at, so that no change is lost. */
static int keep_alike(struct sync *s)
{
    struct osb_task *task = NULL;
    int r = 0, status = EXIT_OK;

    if (osb_task_start(s->cli->client, watch_task, s, &task) < 0)
        return sync_failed(s);
    for (int i = 0; r >= 0 && !s->watching && !s->watch_error && i < WATCH_READY_TURNS; i++)
        r = take_events(s, 100);
    if (r >= 0 && !s->watching)
        status = watch_failed(s);
    for (bool first = true; r >= 0 && status == EXIT_OK; first = false) {
        status = round_of(s);
        if (status == EXIT_OK && first)
            printf("ready: %zu entries\n", s->count);
        if (fflush(stdout) != 0)
            status = EXIT_FAILED;
        if (status == EXIT_OK)
            r = await_changes(s);
        if (r < 0 && r != -ECANCELED)
            status = watch_failed(s);
    }
    osb_task_cancel(task);
    osb_task_join(task);
    return status;
}

static int run_sync(struct cli *cli, struct sync *s)
{
    bool once = cli_flag(cli, "once");
    int r = open_all(s, once);

    if (r)
        return r;
    s->dirty_local = s->dirty_remote = true;
    if (once)
        return round_of(s);
    cli_interruptible(cli, true);
    r = keep_alike(s);
    return cli_interruptible(cli, false) ? EXIT_OK : r;
}

int sync_command(struct cli *cli)
{
    struct sync s = {
        .cli = cli, .root = -EBADF, .inotify = -EBADF, .wake = -EBADF, .epoll = -EBADF};
    const char *id, *path;
    char *end;
    int r;

    if (!cli_split_place(cli, cli_argument(cli, 1), &id, &path) || path[0] != '/' ||
        path[1] == '\0') {
        cli_error(cli, "Usage", "'%s': expected ID:/path, a directory below /",
                  cli_argument(cli, 1));
        return EXIT_USAGE;
    }
    s.local = cli_argument(cli, 0);
    s.remote = end = arena_strdup(&cli->arena, str_of(path));
    for (end += strlen(end); end > s.remote + 1 && end[-1] == '/';)
        *--end = '\0';
    s.excludes = cli_texts(cli, "exclude", &s.exclude_count);
    s.mirrors = cli_flag(cli, "delete");
    map_init(&s.map, SYNC_ENTRIES_MAX, free);
    r = cli_connect_to(cli, id);
    if (r == 0)
        r = run_sync(cli, &s);
    free(s.list);
    map_done(&s.map);
    fd_close(s.epoll);
    fd_close(s.wake);
    fd_close(s.inotify);
    fd_close(s.root);
    return r;
}
