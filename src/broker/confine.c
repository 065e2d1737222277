#include "broker/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/caps.h"

/* Needed capabilities, and what for. */
static const struct {
    int cap;
    const char *name;
} needed[] = {
    {CAP_SYS_ADMIN,       "SYS_ADMIN"      }, /* namespaces, mounts */
    {CAP_NET_ADMIN,       "NET_ADMIN"      }, /* veth, bridge, nftables */
    {CAP_SETUID,          "SETUID"         }, /* user ids of sandboxes */
    {CAP_SETGID,          "SETGID"         },
    {CAP_CHOWN,           "CHOWN"          }, /* the directories of sandboxes */
    {CAP_DAC_OVERRIDE,    "DAC_OVERRIDE"   }, /* the files that sandboxes wrote */
    {CAP_DAC_READ_SEARCH, "DAC_READ_SEARCH"},
    {CAP_FOWNER,          "FOWNER"         },
    {CAP_FSETID,          "FSETID"         },
    {CAP_MKNOD,           "MKNOD"          }, /* /dev, and whiteouts of snapshots */
    {CAP_KILL,            "KILL"           },
    {CAP_SYS_PTRACE,      "SYS_PTRACE"     }, /* /proc/PID/ns of another user's process */
    {CAP_SYS_CHROOT,      "SYS_CHROOT"     }, /* setns() to a mount namespace */
    {CAP_SETPCAP,         "SETPCAP"        }, /* dropping capabilities */
    {CAP_SETFCAP,         "SETFCAP"        }, /* mapping id 0 of a user namespace */
};

/* The capabilities of this process. */
static int caps_permitted(uint64_t *ret, struct err *e)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};

    if (syscall(SYS_capget, &head, data) < 0)
        return err_sys(e, errno, "read our capabilities");
    *ret = (uint64_t)data[1].permitted << 32 | data[0].permitted;
    return 0;
}

int broker_check_privileges(struct err *e)
{
    AUTO_BUF(missing, 512);
    uint64_t have = 0;
    int r = caps_permitted(&have, e);

    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (!(have >> needed[i].cap & 1))
            (void)buf_addf(&missing, "%sCAP_%s", missing.n ? ", " : "", needed[i].name);
    if (missing.n)
        return err_set(e, EPERM, "start it as root; missing: %s", missing.p);
    return 0;
}

int broker_confine(struct err *e)
{
    uint64_t keep = caps_sandbox | (uint64_t)1 << CAP_SETPCAP |
                    (uint64_t)1 << CAP_LEASE |       /* finding out whether a file has a writer */
                    (uint64_t)1 << CAP_NET_RAW |     /* runsc reads a slot's eth0 by it */
                    (uint64_t)1 << CAP_SYS_RESOURCE; /* limits above our own */
    uint64_t have = 0;
    int r = caps_permitted(&have, e);

    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        keep |= (uint64_t)1 << needed[i].cap;
    r = caps_limit(keep & have);
    if (r < 0)
        return err_sys(e, -r, "limit capabilities");
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? err_sys(e, errno, "no_new_privs") : 0;
}
