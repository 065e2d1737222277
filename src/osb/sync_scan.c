/* sync_scan.c - what is on both sides of osb sync. */
#include "osb/sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

enum {
    WATCHED = IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
              IN_ONLYDIR | IN_DONT_FOLLOW,
    LIST_DEPTH = SYNC_DEPTH_MAX,
};

bool sync_is_excluded(const struct sync *s, const char *path)
{
    const char *name = strrchr(path, '/');

    name = name ? name + 1 : path;
    if (strncmp(name, SYNC_TEMPORARY, strlen(SYNC_TEMPORARY)) == 0)
        return true;
    for (size_t i = 0; i < s->exclude_count; i++)
        if (fnmatch(s->excludes[i], name, 0) == 0 ||
            fnmatch(s->excludes[i], path, FNM_PATHNAME) == 0)
            return true;
    return false;
}

bool sync_same(const struct sync_state *a, const struct sync_state *b)
{
    if (a->type != b->type || a->type == SYNC_NONE || a->type == SYNC_DIRECTORY)
        return a->type == b->type;
    if (a->type == SYNC_FILE && a->mode != b->mode)
        return false;
    return a->size == b->size && a->mtime_us == b->mtime_us;
}

struct sync_state sync_state_of(const struct stat *st)
{
    return (struct sync_state){
        .type = S_ISREG(st->st_mode)   ? SYNC_FILE
                : S_ISDIR(st->st_mode) ? SYNC_DIRECTORY
                : S_ISLNK(st->st_mode) ? SYNC_LINK
                                       : SYNC_NONE,
        .mode = st->st_mode & 0777,
        .size = st->st_size,
        .mtime_us = (int64_t)st->st_mtim.tv_sec * 1000000 + st->st_mtim.tv_nsec / 1000,
    };
}

const char *sync_remote_path(const struct sync *s, struct arena *a, const char *path)
{
    return arena_printf(a, "%s/%s", s->remote, path);
}

/* The entry of a path, made when there is none; NULL at the limit. */
static struct sync_entry *entry_of(struct sync *s, struct str path)
{
    struct sync_entry *entry = map_get(&s->map, path);

    if (entry)
        return entry;
    entry = mem_alloc(sizeof(*entry) + path.n + 1);
    *entry = (struct sync_entry){.action = SYNC_NOTHING};
    memcpy(entry->path, path.p, path.n);
    entry->path[path.n] = '\0';
    if (map_add(&s->map, path, entry) < 0) {
        free(entry);
        return NULL;
    }
    return entry;
}

static int too_many(struct sync *s)
{
    return cli_error(s->cli, "Sync", "More than %d files and directories.", SYNC_ENTRIES_MAX);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp((*(struct sync_entry *const *)a)->path, (*(struct sync_entry *const *)b)->path);
}

int sync_sort(struct sync *s)
{
    void *value;
    size_t at = 0;

    s->list = mem_realloc(s->list, (s->map.n + 1) * sizeof(*s->list));
    s->count = 0;
    while (map_next(&s->map, &at, NULL, &value))
        s->list[s->count++] = value;
    qsort(s->list, s->count, sizeof(struct sync_entry *), compare_paths);
    return 0;
}

/* --- here --- */

struct walk {
    struct sync *sync;
    size_t depth;
    struct {
        DIR *dir;
        size_t path_n;
    } levels[SYNC_DEPTH_MAX];
    char path[SYNC_PATH_MAX];
};

/* Opens the directory at walk->path, and watches it before it is read. */
static int walk_down(struct walk *w, size_t path_n)
{
    struct cli *cli = w->sync->cli;
    char name[64];
    DIR *dir;
    int fd = openat(w->sync->root, w->path[0] ? w->path : ".",
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? 0
                   : cli_error(cli, "Sync", "'%s': %s", w->path, strerror(errno));
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    if (w->depth == SYNC_DEPTH_MAX) {
        close(fd);
        return cli_error(cli, "Sync", "'%s': more than %d levels deep.", w->path, SYNC_DEPTH_MAX);
    }
    if (w->sync->inotify >= 0 &&
        inotify_add_watch(w->sync->inotify, name, WATCHED & ~IN_DONT_FOLLOW) < 0 &&
        errno != ENOENT) {
        close(fd);
        return cli_error(cli, "Sync", "Cannot watch '%s': %s%s", w->path, strerror(errno),
                         errno == ENOSPC ? "; raise fs.inotify.max_user_watches by sysctl" : "");
    }
    dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return cli_error(cli, "Sync", "'%s': %s", w->path, strerror(errno));
    }
    w->levels[w->depth].dir = dir;
    w->levels[w->depth++].path_n = path_n;
    return 0;
}

static int walk_entry(struct walk *w, const char *name)
{
    size_t at = w->levels[w->depth - 1].path_n;
    int n = snprintf(w->path + at, sizeof(w->path) - at, "%s", name);
    struct sync_entry *entry;
    struct sync_state state;
    struct stat st;

    if (n < 0 || at + (size_t)n + 2 > sizeof(w->path))
        return cli_error(w->sync->cli, "Sync", "'%s': a path too long.", w->path);
    if (fstatat(dirfd(w->levels[w->depth - 1].dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* gone meanwhile: its event comes */
    state = sync_state_of(&st);
    if (state.type == SYNC_NONE)
        return 0; /* sockets, devices, FIFOs */
    entry = sync_is_excluded(w->sync, w->path) ? NULL : entry_of(w->sync, str_of(w->path));
    if (!entry)
        return sync_is_excluded(w->sync, w->path) ? 0 : too_many(w->sync);
    entry->local = state;
    if (state.type != SYNC_DIRECTORY)
        return 0;
    n = (int)walk_down(w, at + (size_t)n + 1);
    w->path[strlen(w->path) + 1] = '\0';
    w->path[strlen(w->path)] = '/';
    return n;
}

int sync_scan_local(struct sync *s)
{
    struct walk *w = mem_new(struct walk);
    void *value;
    size_t at = 0;
    int r;

    s->dirty_local = false;
    while (map_next(&s->map, &at, NULL, &value))
        ((struct sync_entry *)value)->local = (struct sync_state){0};
    w->sync = s;
    r = walk_down(w, 0);
    while (r == 0 && w->depth > 0) {
        struct dirent *found = readdir(w->levels[w->depth - 1].dir);

        if (!found)
            (void)closedir(w->levels[--w->depth].dir);
        else if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0)
            r = walk_entry(w, found->d_name);
    }
    while (w->depth > 0)
        (void)closedir(w->levels[--w->depth].dir);
    free(w);
    return r;
}

/* --- there --- */

/* What a sandbox calls its files is not trusted: a path must stay below the root. */
static bool is_plain(struct str path)
{
    struct str part;

    if (path.n == 0 || path.n >= SYNC_PATH_MAX)
        return false;
    while (str_cut(&path, '/', &part))
        if (part.n == 0 || str_eq(part, STR(".")) || str_eq(part, STR("..")))
            return false;
    return true;
}

static struct sync_state state_of_file(const struct osb_file *file)
{
    static const struct {
        const char *name;
        enum sync_type type;
    } types[] = {
        {"file",      SYNC_FILE     },
        {"directory", SYNC_DIRECTORY},
        {"symlink",   SYNC_LINK     },
    };
    struct sync_state state = {
        .mode = osb_file_mode(file) & 0777,
        .size = osb_file_size(file),
        .mtime_us = osb_file_modified_us(file),
    };

    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (strcmp(osb_file_type(file), types[i].name) == 0)
            state.type = (uint8_t)types[i].type;
    return state;
}

/* A directory with something in it that is not ours to delete. */
static void keep_parents(struct sync *s, const char *path)
{
    struct str rest = str_of(path);

    while (rest.n > 0) {
        struct sync_entry *parent;

        while (rest.n > 0 && rest.p[rest.n - 1] != '/')
            rest.n--;
        if (rest.n > 0)
            rest.n--;
        parent = rest.n ? map_get(&s->map, rest) : NULL;
        if (parent)
            parent->foreign = true;
    }
}

/* Whether the path or a directory above it is excluded. */
static bool is_below_excluded(const struct sync *s, char *path)
{
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        bool excluded;

        *slash = '\0';
        excluded = sync_is_excluded(s, path);
        *slash = '/';
        if (excluded)
            return true;
    }
    return sync_is_excluded(s, path);
}

static int take_remote(struct sync *s, const struct osb_file *file)
{
    struct str path = str_of(osb_file_path(file));
    struct sync_state state = state_of_file(file);
    struct sync_entry *entry;
    char text[SYNC_PATH_MAX];
    size_t root = strlen(s->remote) + 1;

    if (path.n <= root || !is_plain(str_skip(path, root)) ||
        str_copy(text, sizeof(text), str_skip(path, root)) < 0)
        return 0;
    if (state.type == SYNC_NONE || is_below_excluded(s, text)) {
        keep_parents(s, text);
        return 0;
    }
    entry = entry_of(s, str_of(text));
    if (!entry)
        return too_many(s);
    entry->remote = state;
    return 0;
}

int sync_scan_remote(struct sync *s)
{
    struct osb_answer *answer = NULL;
    void *value;
    size_t at = 0;
    int r = 0;

    s->dirty_remote = false;
    if (osb_files_list(s->cli->sandbox, s->remote, LIST_DEPTH, &answer) < 0)
        return sync_failed(s);
    while (map_next(&s->map, &at, NULL, &value)) {
        struct sync_entry *entry = value;

        entry->remote = (struct sync_state){0};
        entry->foreign = false;
    }
    for (size_t i = 0; r == 0 && i < osb_file_count(answer); i++)
        r = take_remote(s, osb_file_at(answer, i));
    osb_answer_free(answer);
    return r;
}
