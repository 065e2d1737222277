#include "execd/core/users.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

static const char passwd_file[] = "/etc/passwd";
static const char group_file[] = "/etc/group";

enum {
    LINE_BYTES_MAX = 64 * 1024, /* a group with thousands of members; longer lines are skipped */
    FIELDS_MAX = 7,
};

/* --- lines --- */

struct line {
    struct str field[FIELDS_MAX];
    size_t count;
};

/* Reads the lines of a file through a buffer of bounded size. */
struct lines {
    int fd;
    struct buf window;
    size_t at;     /* of the next line, in the window */
    uint64_t left; /* bytes of the file still to read */
    bool skipping; /* inside a line that is too long */
};

static int lines_open(struct lines *l, const char *file)
{
    *l = (struct lines){.fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
                        .left = USER_FILE_BYTES_MAX};
    buf_init(&l->window, LINE_BYTES_MAX);
    return l->fd < 0 ? -errno : 0;
}

static void lines_close(struct lines *l)
{
    fd_close(l->fd);
    buf_done(&l->window);
}

/* Reads more after the rest of the window. 0 at the end. */
static ssize_t lines_fill(struct lines *l)
{
    size_t want;
    ssize_t n;

    buf_drop_front(&l->window, l->at);
    l->at = 0;
    if (l->window.n == LINE_BYTES_MAX) {
        buf_clear(&l->window);
        l->skipping = true;
    }
    want = min_size(min_size(LINE_BYTES_MAX - l->window.n, 8192), l->left);
    if (want == 0 || buf_reserve(&l->window, want) < 0)
        return 0;
    do
        n = read(l->fd, l->window.p + l->window.n, want);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        buf_claim(&l->window, (size_t)n);
        l->left -= (uint64_t)n;
    }
    return n;
}

static struct line line_split(struct str text)
{
    struct line line = {.count = 0};
    struct str field;

    while (line.count < FIELDS_MAX && str_cut(&text, ':', &field))
        line.field[line.count++] = field;
    return line;
}

/* The next line with at least three fields, which both files have. False at the end. */
static bool lines_next(struct lines *l, struct line *ret)
{
    for (;;) {
        struct str rest = str_skip(buf_str(&l->window), l->at);
        size_t n = str_find(rest, '\n');
        bool last = false, skipped = l->skipping;

        if (n == rest.n && lines_fill(l) > 0)
            continue;
        if (n == rest.n) {
            rest = str_skip(buf_str(&l->window), l->at);
            last = true;
        }
        if (last && rest.n == 0)
            return false;
        l->at += last ? rest.n : n + 1;
        l->skipping = false;
        *ret = line_split(str_make(rest.p, last ? rest.n : n));
        if (!skipped && ret->count >= 3 && ret->field[0].n > 0)
            return true;
    }
}

/* --- rows --- */

static bool id_read(struct str s, uint32_t *ret)
{
    uint32_t id;

    if (str_to_u32(s, &id) < 0 || id == UINT32_MAX) /* the kernel's "unset" */
        return false;
    *ret = id;
    return true;
}

static bool user_read(const struct line *line, struct user *u)
{
    if (line->count < 4 || !id_read(line->field[2], &u->uid) || !id_read(line->field[3], &u->gid) ||
        str_copy(u->name, sizeof(u->name), line->field[0]) < 0)
        return false;
    if (line->count < 6 || str_copy(u->home, sizeof(u->home), line->field[5]) < 0)
        u->home[0] = '\0';
    return true;
}

static bool group_read(const struct line *line, struct group *g)
{
    return id_read(line->field[2], &g->gid) &&
           str_copy(g->name, sizeof(g->name), line->field[0]) == 0;
}

/* By name if one is given, else by uid. */
static int user_find(const struct str *name, uid_t uid, struct user *ret)
{
    struct lines l;
    struct line line;
    struct user u;
    int r = lines_open(&l, passwd_file);

    if (r == 0)
        r = -ENOENT;
    while (r == -ENOENT && l.fd >= 0 && lines_next(&l, &line)) {
        if (!user_read(&line, &u) || (name ? !str_eq(str_of(u.name), *name) : u.uid != uid))
            continue;
        *ret = u;
        r = 0;
    }
    lines_close(&l);
    return r;
}

static int group_find(const struct str *name, gid_t gid, struct group *ret)
{
    struct lines l;
    struct line line;
    struct group g;
    int r = lines_open(&l, group_file);

    if (r == 0)
        r = -ENOENT;
    while (r == -ENOENT && l.fd >= 0 && lines_next(&l, &line)) {
        if (!group_read(&line, &g) || (name ? !str_eq(str_of(g.name), *name) : g.gid != gid))
            continue;
        *ret = g;
        r = 0;
    }
    lines_close(&l);
    return r;
}

int user_by_uid(uid_t uid, struct user *ret)
{
    return user_find(NULL, uid, ret);
}

int user_by_name(struct str name, struct user *ret)
{
    return user_find(&name, 0, ret);
}

int group_by_gid(gid_t gid, struct group *ret)
{
    return group_find(NULL, gid, ret);
}

int group_by_name(struct str name, struct group *ret)
{
    return group_find(&name, 0, ret);
}

/* --- supplementary groups --- */

static bool line_lists_member(const struct line *line, struct str name)
{
    struct str members = line->count > 3 ? line->field[3] : STR_NONE, member;

    while (str_cut(&members, ',', &member))
        if (str_eq(member, name))
            return true;
    return false;
}

static bool gids_have(const gid_t *gids, size_t count, gid_t gid)
{
    for (size_t i = 0; i < count; i++)
        if (gids[i] == gid)
            return true;
    return false;
}

int user_groups(const struct user *u, gid_t **ret_gids, size_t *ret_count)
{
    gid_t *gids = mem_new_array(gid_t, USER_GROUPS_MAX);
    struct lines l;
    struct line line;
    struct group g;
    size_t n = 0;
    int r = lines_open(&l, group_file);

    gids[n++] = u->gid;
    while (r == 0 && n < USER_GROUPS_MAX && lines_next(&l, &line))
        if (group_read(&line, &g) && line_lists_member(&line, str_of(u->name)) &&
            !gids_have(gids, n, g.gid))
            gids[n++] = g.gid;
    lines_close(&l);
    if (r < 0 && r != -ENOENT) {
        free(gids);
        return r;
    }
    *ret_gids = gids;
    *ret_count = n;
    return 0;
}

/* --- names or numbers --- */

int user_to_uid(struct str text, uid_t *ret, struct err *e)
{
    struct user u;
    uint32_t id;

    if (user_by_name(text, &u) == 0)
        *ret = u.uid;
    else if (id_read(text, &id))
        *ret = id;
    else
        return err_set(e, ENOENT, "failed to lookup user %.*s: user: unknown user %.*s",
                       STR_ARG(text), STR_ARG(text));
    return 0;
}

int group_to_gid(struct str text, gid_t *ret, struct err *e)
{
    struct group g;
    uint32_t id;

    if (group_by_name(text, &g) == 0)
        *ret = g.gid;
    else if (id_read(text, &id))
        *ret = id;
    else
        return err_set(e, ENOENT, "failed to lookup group %.*s: group: unknown group %.*s",
                       STR_ARG(text), STR_ARG(text));
    return 0;
}

/* --- the cache --- */

enum { CACHE_ROWS = ARRAY_LEN(((struct user_cache *)NULL)->users) };

static struct user_cache_row *cache_find(struct user_cache_row *rows, uint32_t id)
{
    for (size_t i = 0; i < CACHE_ROWS; i++)
        if (rows[i].known && rows[i].id == id)
            return &rows[i];
    return NULL;
}

/* Replaces the oldest row. */
static const char *cache_put(struct user_cache_row *rows, unsigned *next, uint32_t id,
                             const char *name)
{
    struct user_cache_row *row = &rows[(*next)++ % CACHE_ROWS];

    row->id = id;
    row->known = true;
    if (!name || str_copy(row->name, sizeof(row->name), str_of(name)) < 0)
        (void)snprintf(row->name, sizeof(row->name), "%u", id);
    return row->name;
}

const char *user_cache_name(struct user_cache *c, uid_t uid)
{
    struct user_cache_row *row = cache_find(c->users, uid);
    struct user u;

    if (row)
        return row->name;
    return cache_put(c->users, &c->users_next, uid, user_by_uid(uid, &u) == 0 ? u.name : NULL);
}

const char *group_cache_name(struct user_cache *c, gid_t gid)
{
    struct user_cache_row *row = cache_find(c->groups, gid);
    struct group g;

    if (row)
        return row->name;
    return cache_put(c->groups, &c->groups_next, gid, group_by_gid(gid, &g) == 0 ? g.name : NULL);
}
