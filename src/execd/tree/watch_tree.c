#include "execd/tree/watch_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "execd/tree/fs.h"

enum {
    EVENTS_BYTES = 4096, /* of one read */
    SCAN_ENTRIES = 64,   /* read in one step */
    MASK = IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
           IN_ONLYDIR | IN_EXCL_UNLINK,
    MASK_ROOT = MASK | IN_DELETE_SELF | IN_MOVE_SELF,
};

struct watch_node { /* a directory */
    int wd;
    struct watch_node *up; /* NULL: the root */
    char *name;            /* of the root: its path */
    bool looked_through;
};

struct watch_scan {
    struct watch_scan *next;
    struct watch_node *node;
    DIR *dir;   /* NULL before its turn */
    bool quiet; /* it existed before: its entries are not reported */
};

/* --- paths --- */

/* Appends the path of a directory; the limit of path lengths bounds its depth. */
static int node_path(const struct watch_node *n, struct buf *out)
{
    const struct watch_node *way[PATH_MAX / 2];
    size_t depth = 0;
    int r = 0;

    for (; n; n = n->up) {
        if (depth == ARRAY_LEN(way))
            return -ENAMETOOLONG;
        way[depth++] = n;
    }
    while (r == 0 && depth-- > 0)
        r = buf_addf(out, "%s%s", out->n && out->p[out->n - 1] != '/' ? "/" : "", way[depth]->name);
    return r;
}

static int entry_path(const struct watch_node *up, const char *name, struct buf *out)
{
    int r = node_path(up, out);

    return r < 0 ? r : buf_addf(out, "%s%s", out->p[out->n - 1] == '/' ? "" : "/", name);
}

static void tell(struct watch_tree *t, enum watch_kind kind, const struct watch_node *up,
                 const char *name, bool directory)
{
    AUTO_BUF(path, PATH_MAX);

    if (entry_path(up, name, &path) == 0)
        t->on_event(t->ctx, &(struct watch_event){kind, directory, buf_str(&path), STR_NONE});
}

static void tell_overflow(struct watch_tree *t)
{
    t->on_event(t->ctx, &(struct watch_event){.kind = WATCH_OVERFLOW});
}

/* --- watched directories --- */

static size_t node_slot(const struct watch_tree *t, int wd)
{
    size_t low = 0, high = t->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (t->nodes[middle]->wd < wd)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct watch_node *node_find(const struct watch_tree *t, int wd)
{
    size_t at = node_slot(t, wd);

    return at < t->count && t->nodes[at]->wd == wd ? t->nodes[at] : NULL;
}

static struct watch_node *node_child(const struct watch_tree *t, const struct watch_node *up,
                                     const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->nodes[i]->up == up && strcmp(t->nodes[i]->name, name) == 0)
            return t->nodes[i];
    return NULL;
}

static int node_insert(struct watch_tree *t, struct watch_node *n)
{
    size_t at = node_slot(t, n->wd);

    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 8;
        struct watch_node **nodes = mem_try_realloc(t->nodes, room * sizeof(*nodes));

        if (!nodes)
            return -ENOMEM;
        t->nodes = nodes;
        t->room = room;
    }
    memmove(&t->nodes[at + 1], &t->nodes[at], (t->count - at) * sizeof(*t->nodes));
    t->nodes[at] = n;
    t->count++;
    return 0;
}

static void scan_free(struct watch_scan *s)
{
    if (s->dir)
        closedir(s->dir);
    free(s);
}

static void scan_add(struct watch_tree *t, struct watch_node *n, bool quiet)
{
    struct watch_scan *s = mem_new(struct watch_scan);

    s->node = n;
    s->quiet = quiet;
    *t->scans_tail = s;
    t->scans_tail = &s->next;
}

/* Drops the scans of a directory that is being forgotten. */
static void scans_drop(struct watch_tree *t, const struct watch_node *n)
{
    struct watch_scan **at = &t->scans;

    while (*at) {
        struct watch_scan *s = *at;

        if (s->node == n) {
            *at = s->next;
            scan_free(s);
        } else {
            at = &s->next;
        }
    }
    t->scans_tail = at;
}

static void from_drop(struct watch_tree *t)
{
    free(t->from.name);
    t->from = (struct watch_from){0};
}

static bool node_is_below(const struct watch_node *n, const struct watch_node *top)
{
    while (n && n != top)
        n = n->up;
    return n != NULL;
}

static void node_free(struct watch_tree *t, struct watch_node *n)
{
    if (t->from.up == n)
        from_drop(t);
    scans_drop(t, n);
    free(n->name);
    free(n);
}

/* Forgets a directory and those below it. All are collected before any is freed. */
static void node_forget(struct watch_tree *t, struct watch_node *top)
{
    struct watch_node **gone = mem_alloc(t->count * sizeof(struct watch_node *));
    size_t kept = 0, lost = 0;

    for (size_t i = 0; i < t->count; i++) {
        if (node_is_below(t->nodes[i], top))
            gone[lost++] = t->nodes[i];
        else
            t->nodes[kept++] = t->nodes[i];
    }
    t->count = kept;
    for (size_t i = 0; i < lost; i++) {
        (void)inotify_rm_watch(t->fd, gone[i]->wd); /* fails if the kernel removed it first */
        node_free(t, gone[i]);
    }
    free(gone);
}

/* Watches by descriptor, so that no link created meanwhile is followed. */
static int kernel_watch(struct watch_tree *t, const char *path, uint32_t mask)
{
    char link[sizeof("/proc/self/fd/") + 12];
    auto_fd fd = fs_open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    int wd;

    if (fd < 0)
        return fd;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    wd = inotify_add_watch(t->fd, link, mask);
    if (wd < 0 && errno == ENOENT && !fs_is_confined()) /* there is no /proc */
        wd = inotify_add_watch(t->fd, path, mask | IN_DONT_FOLLOW);
    return wd < 0 ? -errno : wd;
}

/* Watches one more directory. -EEXIST when it is already watched. */
static int node_add(struct watch_tree *t, struct watch_node *up, const char *name,
                    struct watch_node **ret)
{
    AUTO_BUF(path, PATH_MAX);
    struct watch_node *n;
    int r = up ? entry_path(up, name, &path) : buf_add(&path, str_of(name)), wd;

    if (r < 0)
        return -ENAMETOOLONG;
    if (t->count == WATCH_DIRECTORIES_MAX)
        return -ENOSPC;
    wd = kernel_watch(t, path.p, up ? MASK : MASK_ROOT);
    if (wd < 0)
        return wd;
    if (node_find(t, wd))
        return -EEXIST;
    n = mem_new(struct watch_node);
    *n = (struct watch_node){wd, up, mem_strdup(name)};
    r = node_insert(t, n);
    if (r < 0) {
        free(n->name);
        free(n);
        return r;
    }
    *ret = n;
    return 0;
}

/* Watches a subdirectory, then queues it for a scan. One that is unreadable or gone is no failure:
 * if a parent of it was moved, it is found when that one is. */
static int subtree_add(struct watch_tree *t, struct watch_node *up, const char *name, bool quiet)
{
    struct watch_node *n;
    int r = t->recursive ? node_add(t, up, name, &n) : -EEXIST;

    if (r == 0)
        scan_add(t, n, quiet);
    else if (r == -ENOENT)
        up->looked_through = false;
    return r == -ENOSPC || r == -ENOMEM ? -ENOSPC : 0;
}

/* --- entries already reported --- */

/* An entry of a watched directory as the key of a map: its watch descriptor, then its name. Whole
 * keys are compared: a hash that two entries share would hide the events of one of them. */
struct entry_key {
    char bytes[sizeof(int) + NAME_MAX];
};

static struct str entry_key(struct entry_key *key, int wd, const char *name)
{
    size_t n = strnlen(name, NAME_MAX);

    memcpy(key->bytes, &wd, sizeof(wd));
    memcpy(key->bytes + sizeof(wd), name, n);
    return str_make(key->bytes, sizeof(wd) + n);
}

static void seen_add(struct watch_tree *t, int wd, const char *name)
{
    struct entry_key key;
    int r = map_set(&t->seen, entry_key(&key, wd, name), NULL);

    (void)r; /* without room its event is reported, too */
}

static bool seen_take(struct watch_tree *t, int wd, const char *name)
{
    struct entry_key key;

    return map_remove(&t->seen, entry_key(&key, wd, name));
}

/* --- scans --- */

static bool is_dir(int dir, const struct dirent *d)
{
    struct stat st;

    if (d->d_type != DT_UNKNOWN)
        return d->d_type == DT_DIR;
    return fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int scan_entry(struct watch_tree *t, struct watch_scan *s, const struct dirent *d)
{
    bool directory = is_dir(dirfd(s->dir), d);

    if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
        return 0;
    if (!s->quiet) {
        tell(t, WATCH_CREATED, s->node, d->d_name, directory);
        seen_add(t, s->node->wd, d->d_name);
    }
    return directory ? subtree_add(t, s->node, d->d_name, s->quiet) : 0;
}

static bool scan_open(struct watch_scan *s)
{
    AUTO_BUF(path, PATH_MAX);
    int fd;

    if (node_path(s->node, &path) < 0)
        return false;
    fd = fs_open(path.p, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    s->dir = fdopendir(fd);
    if (!s->dir)
        fd_close(fd);
    return s->dir != NULL;
}

/* Reads some entries of the first directory in the queue. */
static int scan_step(struct watch_tree *t)
{
    struct watch_scan *s = t->scans;
    struct dirent *d = NULL;
    int r = 0;

    s->node->looked_through = s->dir || scan_open(s);
    if (s->dir)
        for (int i = 0; i < SCAN_ENTRIES && r == 0 && (d = readdir(s->dir)); i++)
            r = scan_entry(t, s, d);
    if (!d) {
        t->scans = s->next;
        if (!t->scans)
            t->scans_tail = &t->scans;
        scan_free(s);
    }
    return r;
}

/* --- inotify events --- */

bool watch_tree_waits(const struct watch_tree *t)
{
    return t->from.name != NULL;
}

void watch_tree_flush(struct watch_tree *t)
{
    struct watch_node *n;

    if (!watch_tree_waits(t))
        return;
    tell(t, WATCH_DELETED, t->from.up, t->from.name, t->from.directory);
    n = t->from.directory ? node_child(t, t->from.up, t->from.name) : NULL;
    from_drop(t);
    if (n)
        node_forget(t, n);
}

/* Reports that events were lost, and scans for directories created meanwhile. */
static void overflowed(struct watch_tree *t)
{
    tell_overflow(t);
    for (size_t i = 0; t->recursive && i < t->count; i++)
        scan_add(t, t->nodes[i], true);
}

/* The second half of a move: from one place of the tree to another. */
static void moved_within(struct watch_tree *t, struct watch_node *up, const char *name)
{
    AUTO_BUF(path, PATH_MAX);
    AUTO_BUF(from, PATH_MAX);
    struct watch_from *half = &t->from;
    struct watch_node *n = half->directory ? node_child(t, half->up, half->name) : NULL;

    if (entry_path(up, name, &path) == 0 && entry_path(half->up, half->name, &from) == 0)
        t->on_event(t->ctx, &(struct watch_event){WATCH_MOVED, half->directory, buf_str(&path),
                                                  buf_str(&from)});
    if (n && node_is_below(up, n)) { /* the event that moved `up` out of it was lost */
        node_forget(t, n);
        from_drop(t);
        overflowed(t);
        return;
    }
    if (n) {
        free(n->name);
        n->name = mem_strdup(name);
        n->up = up;
    }
    /* It may have been moved before it was watched or completely scanned. */
    for (size_t i = 0; n && i < t->count; i++)
        if (!t->nodes[i]->looked_through && node_is_below(t->nodes[i], n))
            scan_add(t, t->nodes[i], false);
    if (!n && half->directory && subtree_add(t, up, name, false) < 0)
        tell_overflow(t);
    from_drop(t);
}

static void appeared(struct watch_tree *t, struct watch_node *up, const char *name, bool directory)
{
    if (!seen_take(t, up->wd, name))
        tell(t, WATCH_CREATED, up, name, directory);
    if (directory && subtree_add(t, up, name, false) < 0)
        tell_overflow(t);
}

static void moved_from(struct watch_tree *t, struct watch_node *up, const struct inotify_event *ev)
{
    t->from = (struct watch_from){up, mem_strdup(ev->name), ev->cookie, ev->mask & IN_ISDIR};
}

static void modified(struct watch_tree *t, struct watch_node *up, const struct inotify_event *ev)
{
    struct entry_key room;
    struct str key = entry_key(&room, up->wd, ev->name);

    if (str_eq(key, buf_str(&t->last_modified)))
        return;
    tell(t, WATCH_MODIFIED, up, ev->name, ev->mask & IN_ISDIR);
    buf_clear(&t->last_modified);
    (void)buf_add(&t->last_modified, key); /* without memory, the next one is reported, too */
}

static void take_self(struct watch_tree *t, struct watch_node *n, uint32_t mask)
{
    if (n->up) {
        if (mask & IN_IGNORED)
            node_forget(t, n);
        return;
    }
    if (!t->gone)
        t->on_event(t->ctx, &(struct watch_event){WATCH_GONE, true, str_of(n->name), STR_NONE});
    t->gone = true;
}

static void take_event(struct watch_tree *t, const struct inotify_event *ev)
{
    struct watch_node *up;
    bool half = watch_tree_waits(t) && ev->mask & IN_MOVED_TO && ev->cookie == t->from.cookie;

    if (!half)
        watch_tree_flush(t);
    if (!(ev->mask & (IN_MODIFY | IN_ATTRIB)))
        buf_clear(&t->last_modified);
    if (ev->mask & IN_Q_OVERFLOW)
        overflowed(t);
    up = node_find(t, ev->wd);
    if (!up) /* the flush may have freed it */
        return;
    if (ev->mask & (IN_DELETE | IN_MOVED_FROM))
        (void)seen_take(t, up->wd, ev->name); /* the next entry of this name is another one */
    if (ev->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT))
        take_self(t, up, ev->mask);
    else if (ev->len == 0)
        return; /* about the directory itself; its parent reports the same */
    else if (half)
        moved_within(t, up, ev->name);
    else if (ev->mask & (IN_CREATE | IN_MOVED_TO))
        appeared(t, up, ev->name, ev->mask & IN_ISDIR);
    else if (ev->mask & IN_MOVED_FROM)
        moved_from(t, up, ev);
    else if (ev->mask & IN_DELETE)
        tell(t, WATCH_DELETED, up, ev->name, ev->mask & IN_ISDIR);
    else if (ev->mask & (IN_MODIFY | IN_ATTRIB))
        modified(t, up, ev);
}

static int read_events(struct watch_tree *t, struct err *e)
{
    _Alignas(struct inotify_event) char room[EVENTS_BYTES];
    ssize_t n = read(t->fd, room, sizeof(room));

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        map_done(&t->seen); /* the queue is empty: no more duplicates will come */
        buf_clear(&t->last_modified);
        return 0;
    }
    if (n <= 0)
        return err_sys(e, n < 0 ? errno : EIO, "read what happened");
    for (char *at = room; at < room + n && !t->gone;) {
        struct inotify_event *ev = (struct inotify_event *)(void *)at;

        take_event(t, ev);
        at += sizeof(*ev) + ev->len;
    }
    return 1;
}

/* --- interface --- */

int watch_tree_open(struct watch_tree *t, const char *root, bool recursive,
                    void (*on_event)(void *ctx, const struct watch_event *event), void *ctx,
                    struct err *e)
{
    struct watch_node *n;
    int r;

    *t = (struct watch_tree){.recursive = recursive, .on_event = on_event, .ctx = ctx};
    t->scans_tail = &t->scans;
    map_init(&t->seen, WATCH_SEEN_MAX, NULL);
    buf_init(&t->last_modified, sizeof(struct entry_key));
    t->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (t->fd < 0)
        return err_sys(e, errno, "watch %s", root);
    r = node_add(t, NULL, root, &n);
    if (r < 0)
        return err_set(e, -r, "watch %s: %s", root, fs_text(-r));
    if (recursive)
        scan_add(t, n, true);
    return 0;
}

void watch_tree_done(struct watch_tree *t)
{
    if (!t->on_event) /* all zero */
        return;
    from_drop(t);
    while (t->scans) {
        struct watch_scan *s = t->scans;

        t->scans = s->next;
        scan_free(s);
    }
    for (size_t i = 0; i < t->count; i++) {
        free(t->nodes[i]->name);
        free(t->nodes[i]);
    }
    free(t->nodes);
    map_done(&t->seen);
    buf_done(&t->last_modified);
    fd_close(t->fd); /* also removes all watches */
    *t = (struct watch_tree){.fd = -EBADF};
}

const char *watch_tree_root(const struct watch_tree *t)
{
    return t->nodes[0]->name; /* the first one watched has the smallest wd */
}

int watch_tree_step(struct watch_tree *t, struct err *e)
{
    bool quiet;

    if (t->gone)
        return 0;
    if (!t->scans)
        return read_events(t, e);
    quiet = t->scans->quiet;
    if (scan_step(t) == 0)
        return 1;
    if (quiet)
        return err_set(e, ENOSPC, "more directories than can be watched (%zu are)", t->count);
    tell_overflow(t);
    return 1;
}
