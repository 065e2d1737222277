/* caps.c - the table of capabilities, and the system calls that apply it.
 *
 * All of them apply only within the sandbox's user namespace, whose ids own nothing outside. Not
 * granted, unlike in Docker: MKNOD (a user namespace cannot make devices), NET_RAW and
 * NET_BIND_SERVICE (the network namespace belongs to the host; sysctls allow ping and low ports),
 * SYS_CHROOT (would bypass path checks, and nothing needs it), AUDIT_WRITE (no effect in a user
 * namespace). */
#include "base/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(cap) (UINT64_C(1) << (cap))

#define KEPT                                                                                       \
    (BIT(CAP_CHOWN)          /* package managers change file owners */                             \
     | BIT(CAP_DAC_OVERRIDE) /* root opens any file of the sandbox */                              \
     | BIT(CAP_FOWNER)       /* chmod, utimes, sticky directories */                               \
     | BIT(CAP_FSETID)       /* setgid bits survive unpacking */                                   \
     | BIT(CAP_KILL)         /* root may signal processes of other users */                        \
     | BIT(CAP_SETGID)       /* su, cron, postgres: change user */                                 \
     | BIT(CAP_SETUID)       /* the same */                                                        \
     | BIT(CAP_SETFCAP))     /* rpm needs it; no_new_privs makes file capabilities ineffective */

const uint64_t caps_sandbox = KEPT;
const uint64_t caps_init = KEPT | BIT(CAP_SETPCAP) /* to limit each child */
                           | BIT(CAP_SYS_ADMIN)    /* to make nested sandboxes: see nesting.h */
                           | BIT(CAP_SYS_CHROOT)   /* to enter their mount namespaces */
                           | BIT(CAP_NET_ADMIN);   /* to bring up their loopback */

int caps_bound(uint64_t keep)
{
    for (int cap = 0; cap < 64; cap++) {
        int held = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);

        if (held < 0) /* EINVAL: past the last capability of this kernel */
            break;
        if (held && !(keep & BIT(cap)) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return -errno;
    }
    return 0;
}

int caps_set(uint64_t keep)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {
        {.effective = (uint32_t)keep,         .permitted = (uint32_t)keep        },
        {.effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32)},
    };

    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    if (syscall(SYS_capset, &header, sets) < 0)
        return -errno;
    return 0;
}

int caps_limit(uint64_t keep)
{
    int r = caps_bound(keep);

    return r < 0 ? r : caps_set(keep);
}
