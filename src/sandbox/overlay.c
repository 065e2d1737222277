#include "sandbox/overlay.h"

#include <errno.h>
#include <stdio.h>

#include "base/mount_api.h"

enum {
    TARGET_BYTES_MAX = 64,
    OPTIONS_BYTES_MAX = 4096, /* of mount(2), which uses one page */
};

/* Directories are named by /proc/self/fd: short, and the same for every kernel. */
int overlay_mount(const struct overlay *o, int place, struct err *e)
{
    char options[OPTIONS_BYTES_MAX], target[TARGET_BYTES_MAX];
    size_t n = 0;
    int r;

    for (size_t i = 0; i < o->lower_count && n < sizeof(options); i++)
        n += (size_t)snprintf(options + n, sizeof(options) - n, "%s/proc/self/fd/%d",
                              i ? ":" : "lowerdir=", o->lowers[i]);
    /* A snapshot copies only the upper directory: it must not refer to lower layers. volatile: does
     * not wait for the disk. */
    if (n < sizeof(options))
        n += (size_t)snprintf(options + n, sizeof(options) - n,
                              ",upperdir=/proc/self/fd/%d/%s,workdir=/proc/self/fd/%d/%s,"
                              "redirect_dir=off,metacopy=off%s",
                              o->dir, o->upper, o->dir, o->work, o->lasts ? "" : ",volatile");
    if (n >= sizeof(options))
        return err_set(e, E2BIG, "overlay: too many layers");
    (void)snprintf(target, sizeof(target), "/proc/self/fd/%d", place);
    r = mnt_mount("overlay", target, MS_NODEV | MS_NOSUID, options);
    return r < 0 ? err_sys(e, -r, "overlay") : 0;
}
