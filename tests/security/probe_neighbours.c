/* probe_neighbours.c - what another sandbox has, and the half of it that plays that sandbox. */
#include "probe.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t abstract_address(struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path + 1, NEIGHBOUR_ABSTRACT, sizeof(NEIGHBOUR_ABSTRACT) - 1);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(NEIGHBOUR_ABSTRACT));
}

static void must(const char *what, long r)
{
    if (r >= 0)
        return;
    (void)fprintf(stderr, "neighbour: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void listen_inet(int type, unsigned port)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET6, type | SOCK_CLOEXEC, 0); /* takes IPv4, too */

    if (fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0) {
        if (type == SOCK_STREAM)
            must("listen", listen(fd, 16));
        return;
    }
    fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    must("bind", bind(fd, (struct sockaddr *)&any4, sizeof(any4)));
    if (type == SOCK_STREAM)
        must("listen", listen(fd, 16));
}

void neighbour_serve(unsigned port)
{
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 16};
    struct sockaddr_un un;
    socklen_t n = abstract_address(&un);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must("abstract socket", bind(fd, (struct sockaddr *)&un, n));
    must("listen", listen(fd, 16));
    listen_inet(SOCK_STREAM, port);
    listen_inet(SOCK_DGRAM, port);
    must("shmget", shmget(NEIGHBOUR_IPC_KEY, 4096, IPC_CREAT | 0666));
    must("semget", semget(NEIGHBOUR_IPC_KEY, 1, IPC_CREAT | 0666));
    must("msgget", msgget(NEIGHBOUR_IPC_KEY, IPC_CREAT | 0666));
    must("mq_open", mq_open(NEIGHBOUR_QUEUE, O_CREAT | O_RDWR, 0666, &attr));
    must("shm file", open(NEIGHBOUR_SHM_FILE, O_CREAT | O_RDWR | O_CLOEXEC, 0666));
    must("file", open("/neighbour-file", O_CREAT | O_RDWR | O_CLOEXEC, 0666));
    printf("ready\n");
    (void)fflush(stdout);
    for (;;)
        (void)pause();
}

void neighbour_hold_inotify(unsigned seconds)
{
    unsigned n = 0;

    while (n < 100000 && inotify_init1(IN_CLOEXEC) >= 0)
        n++;
    printf("%u\n", n);
    (void)fflush(stdout);
    (void)sleep(seconds);
    exit(0);
}

static struct result try_inotify(const struct context *c, const struct probe *p)
{
    if (inotify_init1(IN_CLOEXEC) < 0)
        return verdict(OPEN, "%s: others have used them up", strerror(errno));
    return verdict(CONTAINED, "there are still some for us");
}

static struct result try_abstract(const struct context *c, const struct probe *p)
{
    struct sockaddr_un un;
    socklen_t n = abstract_address(&un);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&un, n) < 0)
        return blocked("connect");
    return verdict(OPEN, "connected");
}

static struct result try_unix_list(const struct context *c, const struct probe *p)
{
    char line[512];
    FILE *f = fopen("/proc/net/unix", "re");

    if (!f)
        return blocked("open");
    while (fgets(line, sizeof(line), f))
        if (strstr(line, NEIGHBOUR_ABSTRACT) || strstr(line, "docker") ||
            strstr(line, "containerd"))
            return verdict(OPEN, "shows sockets of others");
    return verdict(BLOCKED, "shows none but ours");
}

static struct result try_sysv(const struct context *c, const struct probe *p)
{
    switch (p->call[0]) {
    case 0:
        return shmget(NEIGHBOUR_IPC_KEY, 0, 0) < 0 ? blocked("shmget") : verdict(OPEN, "found");
    case 1:
        return semget(NEIGHBOUR_IPC_KEY, 0, 0) < 0 ? blocked("semget") : verdict(OPEN, "found");
    }
    return msgget(NEIGHBOUR_IPC_KEY, 0) < 0 ? blocked("msgget") : verdict(OPEN, "found");
}

static struct result try_queue(const struct context *c, const struct probe *p)
{
    if (mq_open(NEIGHBOUR_QUEUE, O_RDONLY) == (mqd_t)-1)
        return blocked("mq_open");
    return verdict(OPEN, "found");
}

static struct result try_shm_file(const struct context *c, const struct probe *p)
{
    if (open(NEIGHBOUR_SHM_FILE, O_RDONLY | O_CLOEXEC) < 0)
        return blocked("open");
    return verdict(OPEN, "found");
}

static struct result try_neighbour_pid(const struct context *c, const struct probe *p)
{
    char path[64], comm[32] = "";
    int fd;

    if (!c->neighbour_pid)
        return verdict(NA, "no --neighbour-pid");
    (void)snprintf(path, sizeof(path), "/proc/%d/comm", c->neighbour_pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return blocked("open its /proc entry");
    if (read(fd, comm, sizeof(comm) - 1) > 0 && strncmp(comm, "probe", 5) == 0)
        return verdict(OPEN, "visible");
    return verdict(BLOCKED, "that number is a process of ours");
}

static struct result try_neighbour_signal(const struct context *c, const struct probe *p)
{
    if (!c->neighbour_pid)
        return verdict(NA, "no --neighbour-pid");
    if (kill(c->neighbour_pid, 0) < 0)
        return blocked("kill");
    return try_neighbour_pid(c, p);
}

static struct result try_neighbour_file(const struct context *c, const struct probe *p)
{
    if (!c->neighbour_path)
        return verdict(NA, "no --neighbour-path");
    if (open(c->neighbour_path, O_RDONLY | O_CLOEXEC) < 0)
        return blocked("open");
    return verdict(OPEN, "readable");
}

static struct result try_kthreads(const struct context *c, const struct probe *p)
{
    char comm[32] = "";
    int fd = open("/proc/2/comm", O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && read(fd, comm, sizeof(comm) - 1) > 0 && strncmp(comm, "kthreadd", 8) == 0)
        return verdict(OPEN, "the host's processes are visible");
    return verdict(BLOCKED, "only processes of our own");
}

/* With the host's ids, root here is root in whatever else it reaches, and shares its quotas. */
static struct result try_uid_map(const struct context *c, const struct probe *p)
{
    unsigned long inside, outside, count;
    FILE *f = fopen("/proc/self/uid_map", "re");

    if (!f || fscanf(f, "%lu %lu %lu", &inside, &outside, &count) != 3)
        return verdict(NA, "no uid_map");
    if (outside == 0)
        return verdict(OPEN, "root here is root outside");
    return verdict(BLOCKED, "root here is uid %lu outside", outside);
}

static const struct probe probes[] = {
    PROBE("pid-visible", try_neighbour_pid, "names, arguments and environment of others"),
    PROBE("pid-signal", try_neighbour_signal, "ends processes of others"),
    PROBE("host-processes", try_kthreads, "the same for the host"),
    PROBE("abstract-socket", try_abstract, "abstract names belong to a network namespace"),
    PROBE("unix-sockets-listed", try_unix_list, "names of others' sockets"),
    PROBE("sysv-shm", try_sysv, "shared memory by key"),
    PROBE("sysv-sem", try_sysv, "semaphores by key", .call = {1}),
    PROBE("sysv-msg", try_sysv, "messages by key", .call = {2}),
    PROBE("posix-mq", try_queue, "message queues by name"),
    PROBE("posix-shm", try_shm_file, "shared memory by name"),
    PROBE("neighbour-file", try_neighbour_file,
          "files of another sandbox by their path on the host"),
    PROBE("uid-range", try_uid_map, "ids of our own: what gets out owns nothing there"),
    PROBE("inotify-starved", try_inotify,
          "instances are counted per user: one sandbox must not use up another's"),
};
const struct probe_group group_neighbours = {"neighbours", probes, ARRAY_LEN(probes)};
