/* measure.c - counts the files of a directory and their bytes on disk.
 *
 * A volume may have millions of files, and belongs to users that the caller cannot read as. So it
 * is a job, see jobs.h. A tree that is too large or too deep is not counted in part: the answer is
 * -E2BIG. */
#include "broker/measure.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "broker/jobs.h"

enum {
    DEPTH_MAX = 256,
    LOOK_EVERY = 1024, /* entries, between looks at clock and caller */
    BLOCK_BYTES = 512, /* of st_blocks */
};

struct measure {
    DIR *levels[DEPTH_MAX];
    size_t depth;
    uint64_t deadline;
    int caller;
    struct broker_copied *ret;
};

static int enter(struct measure *m, int parent, const char *name)
{
    auto_fd fd = -EBADF;

    if (m->depth == DEPTH_MAX)
        return err_set(&m->ret->err, E2BIG, "directories are nested more than %d deep", DEPTH_MAX);
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    m->levels[m->depth] = fd < 0 ? NULL : fdopendir(fd);
    if (!m->levels[m->depth]) /* it was removed meanwhile */
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? 0
                   : err_sys(&m->ret->err, errno, "enter a directory");
    (void)take_fd(&fd);
    m->depth++;
    return 0;
}

/* A file of several names counts in parts, which add up when all of them are here. */
static int count(struct measure *m, const char *name)
{
    int parent = dirfd(m->levels[m->depth - 1]);
    struct stat st;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    m->ret->entries++;
    if (S_ISDIR(st.st_mode)) {
        m->ret->bytes += (uint64_t)st.st_blocks * BLOCK_BYTES;
        return enter(m, parent, name);
    }
    m->ret->bytes +=
        (uint64_t)st.st_blocks * BLOCK_BYTES / (st.st_nlink ? (uint64_t)st.st_nlink : 1);
    return 0;
}

static int look_up(const struct measure *m)
{
    if (deadline_passed(m->deadline))
        return err_set(&m->ret->err, E2BIG, "there are too many files to count them in %d s",
                       BROKER_MEASURE_MS_MAX / 1000);
    return poll(&(struct pollfd){.fd = m->caller, .events = POLLIN}, 1, 0) > 0 ? -ECANCELED : 0;
}

static int measure(struct measure *m, int dir)
{
    int r = enter(m, dir, ".");

    for (uint32_t turn = 0; r == 0 && m->depth > 0; turn++) {
        struct dirent *d = readdir(m->levels[m->depth - 1]);

        if (turn % LOOK_EVERY == LOOK_EVERY - 1)
            r = look_up(m);
        if (r < 0)
            break;
        if (d)
            r = count(m, d->d_name);
        else
            closedir(m->levels[--m->depth]);
    }
    return r; /* the process ends: what is open goes with it */
}

static int measure_main(void *user, int client)
{
    static struct broker_copied copied;
    static struct measure m;

    m = (struct measure){
        .deadline = deadline_in_ms(BROKER_MEASURE_MS_MAX), .caller = client, .ret = &copied};
    (void)alarm(2 * BROKER_MEASURE_MS_MAX / 1000); /* a directory that does not answer ends it */
    copied.result = measure(&m, *(const int *)user);
    return fd_send(client, &copied, sizeof(copied), NULL, 0) < 0;
}

int measure_start(struct broker *b, int dir, struct err *e)
{
    return job_start(b,
                     &(struct job){
                         .name = "volume count",
                         .fds = &dir,
                         .fd_count = 1,
                         .counts = true,
                         .run = measure_main,
                         .user = &dir,
                     },
                     e);
}
