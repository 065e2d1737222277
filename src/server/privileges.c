#include "server/privileges.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

int privileges_drop(const struct config *config, const gid_t *groups, size_t group_count,
                    struct err *e)
{
    uid_t uid;
    gid_t gid;
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, errno, "set no_new_privs");
    if (geteuid() != 0)
        return 0;
    r = config_account(config, &uid, &gid, e);
    if (r < 0)
        return r;
    if (uid == 0)
        return err_set(e, EINVAL, "server.user must not be root");
    if (setgroups(group_count, groups) < 0 || setresgid(gid, gid, gid) < 0 ||
        setresuid(uid, uid, uid) < 0)
        return err_sys(e, errno, "become user %u", uid);
    return 0;
}
