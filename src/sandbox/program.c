#include "sandbox/program.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

enum { PROGRAM_BYTES_MAX = 64 << 20 };

/* Older kernels reject MFD_EXEC, and do not need it. */
static int program_room(struct err *e)
{
    int fd = memfd_create("execd", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("execd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 && errno == EACCES)
        return err_set(e, EACCES, "sysctl vm.memfd_noexec must be 0 or 1");
    return fd < 0 ? err_sys(e, errno, "make room") : fd;
}

static int program_fill(int from, int to, struct err *e)
{
    struct stat st;
    off_t at = 0;

    if (fstat(from, &st) < 0)
        return err_sys(e, errno, "read");
    if (!S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > PROGRAM_BYTES_MAX)
        return err_set(e, ENOEXEC, "it is not a program");
    while (at < st.st_size) {
        ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));

        if (n <= 0)
            return err_sys(e, n < 0 ? errno : EIO, "read");
    }
    return 0;
}

/* Opens the file again, read-only: a file that is open for writing cannot be executed (ETXTBSY). */
static int program_reopen(int fd, struct err *e)
{
    char link[32];

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return fd_open_at(AT_FDCWD, link, O_RDONLY, 0, PATH_FREE, e);
}

int program_copy(const char *path, struct err *e)
{
    const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
    auto_fd from = fd_open_at(AT_FDCWD, path, O_RDONLY, 0, PATH_FREE, e);
    auto_fd room = -EBADF, copy = -EBADF;
    int r;

    if (from < 0)
        return from;
    r = room = program_room(e);
    if (r >= 0)
        r = program_fill(from, room, e);
    if (r >= 0)
        r = copy = program_reopen(room, e);
    if (r >= 0 && (fchmod(room, 0111) < 0 || fcntl(room, F_ADD_SEALS, seals) < 0))
        r = err_sys(e, errno, "seal");
    return r < 0 ? err_wrap(e, r, "copy '%s'", path) : take_fd(&copy);
}
