/* images_user.c - the user of an image: names are looked up in the image's own files. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "server/images/images.h"

enum { ACCOUNTS_BYTES_MAX = 1 << 20, FIELDS_MAX = 7 };

/* Opens the uppermost file of that name. -ENOENT when there is none, or a layer removes it. */
static int file_open(const int *layers, size_t layer_count, const char *path, struct err *e)
{
    for (size_t i = 0; i < layer_count; i++) {
        auto_fd found = fd_open_at(layers[i], path, O_PATH | O_NOFOLLOW, 0, PATH_STRICT, e);
        struct stat st;

        if (found == -ENOENT)
            continue;
        if (found < 0)
            return found;
        if (fstat(found, &st) < 0 || S_ISCHR(st.st_mode)) /* a whiteout */
            return err_set(e, ENOENT, "it is removed");
        if (!S_ISREG(st.st_mode))
            return err_set(e, EINVAL, "it is no file");
        return fd_open_at(layers[i], path, O_RDONLY | O_NOFOLLOW, 0, PATH_STRICT, e);
    }
    return err_set(e, ENOENT, "there is none");
}

static int file_read(const int *layers, size_t layer_count, const char *path, struct buf *out,
                     struct err *e)
{
    auto_fd fd = file_open(layers, layer_count, path, e);
    size_t n;
    int r;

    if (fd < 0)
        return fd == -ENOENT ? 0 : err_wrap(e, fd, "the image's /%s", path);
    r = buf_reserve(out, ACCOUNTS_BYTES_MAX);
    if (r < 0)
        return err_sys(e, -r, "read the image's /%s", path);
    r = io_pread_full(fd, out->p, ACCOUNTS_BYTES_MAX, 0, &n);
    if (r < 0)
        return err_sys(e, -r, "read the image's /%s", path);
    buf_claim(out, n);
    return 0;
}

/* The line whose first field is `name`, or whose third is `id`. */
static bool line_find(struct str text, struct str name, uint32_t id, struct str ret[FIELDS_MAX])
{
    struct str line;

    while (str_cut(&text, '\n', &line)) {
        struct str fields[FIELDS_MAX] = {{0}};
        uint32_t number;

        for (size_t i = 0; i < FIELDS_MAX && str_cut(&line, ':', &fields[i]); i++)
            continue;
        if (str_to_u32(fields[2], &number) < 0 ||
            !(name.n ? str_eq(fields[0], name) : number == id))
            continue;
        memcpy(ret, fields, sizeof(fields));
        return true;
    }
    return false;
}

static int id_check(uint32_t id, const char *what, struct err *e)
{
    return id < PLAN_UID_RANGE
               ? 0
               : err_set(e, EINVAL, "the image's %s %u is out of range: a sandbox has %d ids", what,
                         id, PLAN_UID_RANGE);
}

static int user_find(struct str passwd, struct str name, struct arena *a, struct images_base *ret,
                     struct err *e)
{
    bool is_number = str_to_u32(name, &ret->uid) == 0;
    struct str fields[FIELDS_MAX];

    if (line_find(passwd, is_number ? STR_NONE : name, ret->uid, fields)) {
        (void)str_to_u32(fields[2], &ret->uid);
        if (str_to_u32(fields[3], &ret->gid) < 0)
            ret->gid = 0;
        ret->home = arena_str(a, fields[5]);
    } else if (!is_number)
        return err_set(e, ENOENT, "the image's user '%.*s' is not in its /etc/passwd",
                       STR_ARG(name));
    else if (ret->uid != 0)
        ret->home = STR("/"); /* as engines have it */
    return id_check(ret->uid, "user", e);
}

static int group_find(struct str groups, struct str name, struct images_base *ret, struct err *e)
{
    struct str fields[FIELDS_MAX];

    if (str_to_u32(name, &ret->gid) < 0) {
        if (!line_find(groups, name, 0, fields))
            return err_set(e, ENOENT, "the image's group '%.*s' is not in its /etc/group",
                           STR_ARG(name));
        (void)str_to_u32(fields[2], &ret->gid);
    }
    return 0;
}

int images_user_find(const int *layers, size_t layer_count, struct str user, struct arena *a,
                     struct images_base *ret, struct err *e)
{
    AUTO_BUF(passwd, ACCOUNTS_BYTES_MAX);
    AUTO_BUF(groups, ACCOUNTS_BYTES_MAX);
    struct str group = user, name;
    bool by_number;
    uint32_t number;
    int r;

    if (!str_cut(&group, ':', &name) || name.n == 0)
        name = STR("0");
    by_number = str_to_u32(name, &number) == 0;
    r = file_read(layers, layer_count, "etc/passwd", &passwd, e);
    if (r < 0 && !by_number)
        return r;
    r = user_find(buf_str(&passwd), name, a, ret, e);
    if (r == 0 && group.n > 0) {
        r = file_read(layers, layer_count, "etc/group", &groups, e);
        if (r == 0 || str_to_u32(group, &number) == 0)
            r = group_find(buf_str(&groups), group, ret, e);
    }
    return r < 0 ? r : id_check(ret->gid, "group", e);
}
