/* caps.c - the table of capabilities, and the four calls that enforce it.
 *
 * All of them count within the sandbox's user namespace only, whose ids own nothing outside. Left
 * out, though Docker grants them: MKNOD (no device can be made in a user namespace), NET_RAW and
 * NET_BIND_SERVICE (the network namespace belongs to the host; sysctls open ping and low ports),
 * SYS_CHROOT (a way around path checks, and nothing here needs it), AUDIT_WRITE (void in a user
 * namespace). */
#include "base/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(cap) (UINT64_C(1) << (cap))

#define KEPT                                                                                       \
    (BIT(CAP_CHOWN)          /* package managers give files to users */                            \
     | BIT(CAP_DAC_OVERRIDE) /* root opens any file of the sandbox */                              \
     | BIT(CAP_FOWNER)       /* chmod, utimes, sticky directories */                               \
     | BIT(CAP_FSETID)       /* setgid bits survive unpacking */                                   \
     | BIT(CAP_KILL)         /* root ends what other users started */                              \
     | BIT(CAP_SETGID)       /* su, cron, postgres: become a user */                               \
     | BIT(CAP_SETUID)       /* the same */                                                        \
     | BIT(CAP_SETFCAP))     /* rpm stops without; no_new_privs makes file capabilities inert */

const uint64_t caps_sandbox = KEPT;
const uint64_t caps_init = KEPT | BIT(CAP_SETPCAP) /* to limit each child */
                           | BIT(CAP_SYS_ADMIN)    /* to make sandboxes inside: see nesting.h */
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
