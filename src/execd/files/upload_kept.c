#include "execd/files/upload_kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "execd/core/path.h"

struct kept_row {
    struct list link;
    struct str name;     /* as the client wrote it */
    const char *path;    /* of the file, symbolic links resolved */
    struct str parent;   /* its directory; created, as far as longer than... */
    size_t parent_kept;  /* ...the part that existed before */
    uint64_t dirs_found; /* uploads.dirs_found at that time */
    bool written;        /* but not in its place yet */
    struct target_kept kept;
};

struct upload_kept {
    struct slice slice;  /* of undoing, after upload_kept_free */
    struct list undoing; /* in uploads.undoing */
    struct arena arena;
    struct list rows; /* in the order of the form */
    struct uploads *all;
    mode_t dir_mode;
};

struct upload_kept *upload_kept_new(size_t bytes_max, struct uploads *all)
{
    struct upload_kept *k = mem_new(struct upload_kept);

    arena_init(&k->arena, bytes_max);
    list_init(&k->rows);
    k->all = all;
    return k;
}

/* --- directories --- */

/* Length of the part of a path that exists. */
static size_t existing_part(const char *path)
{
    AUTO_BUF(at, PATH_MAX);
    struct stat st;

    if (buf_add(&at, str_of(path)) < 0)
        return strlen(path);
    while (at.n > 1 && fs_stat(at.p, &st) < 0)
        buf_cut(&at, path_parent(buf_str(&at)).n);
    return fs_stat(at.p, &st) < 0 ? 0 : at.n;
}

/* Whether directories above may have been created: "..", a missing or an overlong name does not
 * stop the removal. */
static bool may_be_made_above(int r)
{
    return r >= 0 || r == -EINVAL || r == -ENOENT || r == -ENAMETOOLONG;
}

/* Removes created directories from the deepest up to the first that is not empty. If a client was
 * told since then that a directory exists, none is removed: it may rely on one of these. */
static void remove_made(const struct upload_kept *k, const struct kept_row *row)
{
    AUTO_BUF(at, PATH_MAX);

    if (row->dirs_found != k->all->dirs_found || buf_add(&at, row->parent) < 0)
        return;
    while (at.n > row->parent_kept) {
        struct str above = path_parent(buf_str(&at));
        int r = fs_rmdir(at.p);

        if (!may_be_made_above(r) || above.n == at.n)
            return;
        buf_cut(&at, above.n);
    }
}

static int make_parent(struct upload_kept *k, struct kept_row *row, const char *path)
{
    char *parent = arena_strdup(&k->arena, path_parent(str_of(path)));

    if (!parent)
        return -ENOMEM;
    row->parent = str_of(parent);
    row->parent_kept = existing_part(parent);
    row->dirs_found = k->all->dirs_found;
    return row->parent.n == 0 ? 0 : fs_make_dirs(parent, k->dir_mode, NULL);
}

int upload_kept_make_parent(struct upload_kept *k, const char *path, mode_t mode, struct err *e)
{
    struct kept_row *row = arena_new(&k->arena, struct kept_row);
    int r = -ENOMEM;

    if (row) {
        /* Also on failure: some directories may have been created. */
        list_push(&k->rows, &row->link);
        k->dir_mode = mode;
        r = make_parent(k, row, path);
    }
    return r < 0 ? err_set(e, -r, "%s", fs_text(-r)) : 0;
}

/* --- a file --- */

static struct kept_row *last_row(const struct upload_kept *k)
{
    return container_of(k->rows.prev, struct kept_row, link);
}

int upload_kept_open(struct upload_kept *k, const char *path, struct target *ret, struct err *e)
{
    struct kept_row *row = last_row(k);
    AUTO_BUF(real, PATH_MAX);
    int r = fs_follow(path, &real);

    if (r == 0) {
        row->path = arena_strdup(&k->arena, buf_str(&real));
        r = row->path ? 0 : -ENOMEM;
    }
    if (r < 0)
        return err_set(e, -r, "open %s: %s", path, fs_text(-r));
    return target_open(ret, row->path, e);
}

int upload_kept_add(struct upload_kept *k, struct target *t, struct str name, struct err *e)
{
    struct kept_row *row = last_row(k);
    int r = target_keep(t, k->all->nameless < UPLOAD_NAMELESS_MAX, &row->kept, e);

    if (r < 0)
        return r;
    row->name = name;
    row->written = row->kept.fd >= 0 || row->kept.temp[0];
    k->all->nameless += row->kept.fd >= 0;
    return 0;
}

/* An unnamed file does not keep its directory: another form may have created it and, undone since,
 * removed it as empty. */
static int open_parent_again(const struct upload_kept *k, const struct kept_row *row,
                             struct str *ret_name)
{
    int fd = fs_open_parent(row->path, ret_name);

    if (fd == -ENOENT && fs_make_dirs(row->parent.p, k->dir_mode, NULL) == 0)
        fd = fs_open_parent(row->path, ret_name);
    return fd;
}

static int place(const struct upload_kept *k, struct kept_row *row)
{
    struct str base;
    auto_fd dir = open_parent_again(k, row, &base);
    char name[NAME_MAX + 1];
    bool nameless = row->kept.fd >= 0;
    int r = dir < 0 ? dir : str_copy(name, sizeof(name), base);

    if (r >= 0)
        r = target_kept_place(&row->kept, dir, name);
    k->all->nameless -= nameless && row->kept.fd < 0; /* it may have got a temporary name only */
    return r;
}

static void drop(const struct upload_kept *k, struct kept_row *row)
{
    struct str base;
    auto_fd dir = fs_open_parent(row->path, &base);

    k->all->nameless -= row->kept.fd >= 0;
    target_kept_drop(&row->kept, dir);
}

/* --- all files --- */

int upload_kept_place(struct upload_kept *k, struct str *ret_name, struct err *e)
{
    struct kept_row *row;
    int r;

    if (list_empty(&k->rows))
        return 0;
    row = container_of(k->rows.next, struct kept_row, link);
    r = row->written ? place(k, row) : 0;
    if (r < 0) {
        *ret_name = row->name;
        return err_set(e, -r, "rename: %s", fs_text(-r));
    }
    list_remove(&row->link);
    return 1;
}

bool upload_kept_undo(struct upload_kept *k)
{
    struct kept_row *row;

    if (list_empty(&k->rows))
        return false;
    row = last_row(k);
    if (row->written)
        drop(k, row);
    remove_made(k, row);
    list_remove(&row->link);
    return true;
}

static bool undo_step(struct slice *s)
{
    struct upload_kept *k = container_of(s, struct upload_kept, slice);

    if (upload_kept_undo(k))
        return true;
    list_remove(&k->undoing);
    arena_done(&k->arena);
    free(k);
    return false;
}

void uploads_init(struct uploads *all)
{
    *all = (struct uploads){0};
    list_init(&all->undoing);
}

void uploads_finish(struct uploads *all)
{
    for (struct list *at = all->undoing.next, *next; at != &all->undoing; at = next) {
        struct upload_kept *k = container_of(at, struct upload_kept, undoing);

        next = at->next;
        slice_stop(&k->slice);
        while (undo_step(&k->slice))
            continue;
    }
}

void upload_kept_free(struct upload_kept *k, struct loop *loop)
{
    list_push(&k->all->undoing, &k->undoing);
    slice_start(&k->slice, loop, undo_step);
}
