#include "execd/files/permission.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "execd/core/users.h"
#include "execd/files/file_op.h"
#include "execd/tree/fs.h"

enum { MODE_BITS = 0777 };

static int read_text(const struct json *v, struct str name, struct str *ret, struct err *e)
{
    const struct json *m = file_member(v, name);

    if (m && json_to_str(m, ret) < 0)
        return err_set(e, EBADMSG, "%.*s: expected a string, got %s", STR_ARG(name),
                       json_type_name(m));
    return 0;
}

int permission_read(const struct json *v, struct permission *ret, struct err *e)
{
    const struct json *mode = file_member(v, STR("mode"));
    struct permission p = {.mode = 0};

    if (v->type != JSON_OBJECT && v->type != JSON_NULL)
        return err_set(e, EBADMSG, "expected an object, got %s", json_type_name(v));
    if (read_text(v, STR("owner"), &p.owner, e) < 0 || read_text(v, STR("group"), &p.group, e) < 0)
        return -EBADMSG;
    if (mode && json_to_i64(mode, &p.mode) < 0)
        return err_set(e, EBADMSG, "mode: expected an integer, got %s", json_type_name(mode));
    *ret = p;
    return 0;
}

/* Reads the decimal digits as octal ones. */
static int mode_read(int64_t number, mode_t *ret, struct err *e)
{
    mode_t mode = 0;
    int64_t rest = number;

    for (unsigned shift = 0; rest > 0; rest /= 10, shift += 3) {
        if (rest % 10 > 7)
            break;
        if (shift < 9)
            mode |= (mode_t)(rest % 10) << shift;
    }
    if (rest != 0)
        return err_set(e, EINVAL, "invalid mode %lld: expected octal digits, such as 644",
                       (long long)number);
    *ret = mode & MODE_BITS;
    return 0;
}

int permission_resolve(const struct permission *p, struct permission_ids *ret, struct err *e)
{
    struct permission_ids ids = {.uid = (uid_t)-1, .gid = (gid_t)-1, .set_mode = p->mode != 0};
    int r = ids.set_mode ? mode_read(p->mode, &ids.mode, e) : 0;

    if (r == 0 && p->owner.n > 0)
        r = user_to_uid(p->owner, &ids.uid, e);
    if (r == 0 && p->group.n > 0)
        r = group_to_gid(p->group, &ids.gid, e);
    if (r < 0)
        return r;
    *ret = ids;
    return 0;
}

static bool ids_change_owner(const struct permission_ids *ids)
{
    return ids->uid != (uid_t)-1 || ids->gid != (gid_t)-1;
}

int permission_apply(const struct permission_ids *ids, const char *path, struct err *e)
{
    int r = ids->set_mode ? fs_chmod(path, ids->mode) : 0;

    if (r < 0)
        return err_set(e, -r, "chmod %s: %s", path, fs_text(-r));
    r = ids_change_owner(ids) ? fs_chown(path, ids->uid, ids->gid) : 0;
    return r < 0 ? err_set(e, -r, "chown %s: %s", path, fs_text(-r)) : 0;
}

int permission_apply_fd(const struct permission_ids *ids, int fd, struct err *e)
{
    if (ids->set_mode && fchmod(fd, ids->mode) < 0)
        return err_set(e, errno, "chmod: %s", fs_text(errno));
    if (ids_change_owner(ids) && fchown(fd, ids->uid, ids->gid) < 0)
        return err_set(e, errno, "chown: %s", fs_text(errno));
    return 0;
}
