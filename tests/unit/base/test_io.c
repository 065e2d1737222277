#include "base/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "test.h"

/* A directory of its own for one test, removed with what is in it. */
struct scratch {
    char path[64];
    int fd;
};

static void scratch_done(struct scratch *s)
{
    DIR *d = opendir(s->path);
    struct dirent *entry;

    while (d && (entry = readdir(d)))
        (void)unlinkat(s->fd, entry->d_name, 0);
    if (d)
        closedir(d);
    fd_close(s->fd);
    (void)rmdir(s->path);
}

static struct scratch scratch_new(void)
{
    struct scratch s = {.path = "/tmp/test_io.XXXXXX", .fd = -EBADF};

    CHECK(mkdtemp(s.path));
    s.fd = open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(s.fd >= 0);
    return s;
}
#define auto_scratch __attribute__((cleanup(scratch_done))) struct scratch

static size_t count_entries(const struct scratch *s)
{
    DIR *d = opendir(s->path);
    size_t n = 0;

    CHECK(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2; /* . and .. */
}

static void put_file(const struct scratch *s, const char *name, struct str data)
{
    auto_fd fd = openat(s->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    CHECK_EQ(io_write_full(fd, data, DEADLINE_NEVER), 0);
}

/* Writes 200 bytes in small pieces, and interrupts the reader before each. */
struct slow_writer {
    pthread_t reader;
    int fd;
};
static volatile sig_atomic_t interrupts;

static void on_signal(int sig)
{
    interrupts++;
}

static void *write_slowly(void *arg)
{
    struct slow_writer *w = arg;

    for (int i = 0; i < 20; i++) {
        usleep(2000);
        pthread_kill(w->reader, SIGUSR1);
        usleep(1000);
        if (write(w->fd, "0123456789", 10) != 10)
            abort();
    }
    close(w->fd);
    return NULL;
}

static void read_interrupted(uint64_t deadline)
{
    struct sigaction act = {.sa_handler = on_signal}; /* no SA_RESTART: calls fail with EINTR */
    struct slow_writer w = {.reader = pthread_self()};
    int p[2];
    char room[300];
    pthread_t thread;
    size_t n = 0;

    CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
    CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
    w.fd = p[1];
    CHECK_EQ(pthread_create(&thread, NULL, write_slowly, &w), 0);
    CHECK_EQ(io_read_full(p[0], room, sizeof(room), deadline, &n), 0);
    CHECK_EQ(n, 200); /* the file ended first */
    CHECK_EQ(memcmp(room + 190, "0123456789", 10), 0);
    pthread_join(thread, NULL);
    CHECK(interrupts > 0);
    close(p[0]);
}

TEST(io, reads_on_after_signals)
{
    read_interrupted(DEADLINE_NEVER);
    read_interrupted(deadline_in_ms(20000));
}

TEST(io, completes_short_reads_and_writes)
{
    char got[6];
    size_t n = 0;
    int p[2];

    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
    fault_arm(FAULT_SHORT_IO, 1);
    CHECK_EQ(io_write_full(p[0], STR("abcdef"), DEADLINE_NEVER), 0);
    CHECK_EQ(fault_countdown[FAULT_SHORT_IO], 0); /* the seam was met */
    fault_arm(FAULT_SHORT_IO, 1);
    CHECK_EQ(io_read_full(p[1], got, 6, DEADLINE_NEVER, &n), 0);
    CHECK_EQ(fault_countdown[FAULT_SHORT_IO], 0);
    CHECK_EQ(n, 6);
    CHECK_EQ(memcmp(got, "abcdef", 6), 0);
}

TEST(io, stops_reading_at_its_deadline)
{
    char got[4];
    size_t n = 99;
    int p[2];
    uint64_t before = time_mono_ms();

    CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
    CHECK_EQ(write(p[1], "ab", 2), 2);
    CHECK_EQ(io_read_full(p[0], got, 4, deadline_in_ms(30), &n), -ETIMEDOUT);
    CHECK_EQ(n, 99);
    CHECK(time_mono_ms() - before >= 30);
    CHECK_EQ(io_read_full(-1, got, 1, deadline_in_ms(30), &n), -EBADF);
}

/* The kernel reports an error of it for ever, which a read does not get: ready, and EAGAIN. */
static int open_never_readable(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(to);
    auto_fd deaf = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    struct pollfd ready = {.fd = fd};

    /* The port stays ours, and takes nothing but what it sends itself. */
    CHECK_EQ(bind(deaf, (struct sockaddr *)&to, sizeof(to)), 0);
    CHECK_EQ(getsockname(deaf, (struct sockaddr *)&to, &n), 0);
    CHECK_EQ(connect(deaf, (struct sockaddr *)&to, sizeof(to)), 0);
    CHECK_EQ(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)), 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    CHECK_EQ(send(fd, "x", 1, 0), 1);
    CHECK_EQ(poll(&ready, 1, 10000), 1);
    n = sizeof(on);
    CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &on, &n), 0);
    return fd;
}

TEST(io, stops_at_its_deadline_where_a_descriptor_is_ready_for_nothing)
{
    auto_fd in = open_never_readable(), out = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
    uint64_t too_much = UINT64_MAX - 1;
    size_t n = 99;

    CHECK_EQ(io_read_full(in, &n, 1, deadline_in_ms(30), &n), -ETIMEDOUT);
    CHECK_EQ(io_read_full(in, &n, 1, deadline_in_ms(0), &n), -ETIMEDOUT);
    CHECK_EQ(n, 99);
    CHECK_EQ(io_write_full(out, str_make((char *)&too_much, sizeof(too_much)), deadline_in_ms(30)),
             -ETIMEDOUT);
}

static void check_write_times_out(int fd)
{
    static char megabytes[4 << 20];
    uint64_t before = time_mono_ms();

    CHECK_EQ(io_write_full(fd, str_make(megabytes, sizeof(megabytes)), deadline_in_ms(30)),
             -ETIMEDOUT);
    CHECK(time_mono_ms() - before >= 30);
}

TEST(io, stops_writing_at_its_deadline_also_on_blocking_descriptors)
{
    int pipe_fds[2], sock[2];

    CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
    check_write_times_out(pipe_fds[1]);
    check_write_times_out(sock[0]);
    CHECK_EQ(fd_set_nonblock(pipe_fds[1], true), 0);
    check_write_times_out(pipe_fds[1]);
}

TEST(io, answers_a_vanished_peer_without_a_signal)
{
    int sock[2];

    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
    close(sock[1]);
    CHECK_EQ(io_write_full(sock[0], STR("x"), DEADLINE_NEVER), -EPIPE);
    CHECK_EQ(io_write_full(sock[0], STR("x"), deadline_in_ms(1000)), -EPIPE);
}

TEST(io, reads_at_an_offset_up_to_the_end)
{
    auto_scratch s = scratch_new();
    auto_fd fd = -EBADF;
    char got[8];
    size_t n = 0;

    put_file(&s, "f", STR("0123456789"));
    fd = openat(s.fd, "f", O_RDONLY | O_CLOEXEC);
    fault_arm(FAULT_SHORT_IO, 1);
    CHECK_EQ(io_pread_full(fd, got, 4, 3, &n), 0);
    CHECK_EQ(fault_countdown[FAULT_SHORT_IO], 0);
    CHECK(n == 4 && memcmp(got, "3456", 4) == 0);
    CHECK_EQ(io_pread_full(fd, got, 8, 8, &n), 0);
    CHECK_EQ(n, 2);
    CHECK_EQ(io_pread_full(fd, got, 8, 100, &n), 0);
    CHECK_EQ(n, 0);
    CHECK_EQ(io_pread_full(s.fd, got, 8, 0, &n), -EISDIR);
}

TEST(io, reads_files_up_to_a_limit)
{
    auto_scratch s = scratch_new();
    AUTO_BUF(b, 1 << 20);
    AUTO_BUF(small, 3);
    struct err e = {0};

    put_file(&s, "f", STR("12345"));
    CHECK_EQ(buf_add(&b, STR(">")), 0);
    CHECK_EQ(io_read_file(s.fd, "f", 5, &b, &e), 0);
    CHECK_STR(b.p, ">12345");
    CHECK_EQ(io_read_file(s.fd, "f", 4, &b, &e), -EFBIG);
    CHECK_STR(b.p, ">12345"); /* unchanged */
    CHECK_STR(e.msg, "read 'f': longer than 4 bytes");
    CHECK_EQ(io_read_file(s.fd, "f", 100, &small, &e), -EMSGSIZE);
    CHECK_EQ(small.n, 0);
    CHECK_EQ(io_read_file(s.fd, "none", 100, &b, &e), -ENOENT);
    CHECK_STR(e.msg, "open 'none': No such file or directory");
    CHECK_EQ(io_read_file(s.fd, ".", 100, &b, &e), -EISDIR);
}

TEST(io, reads_files_that_claim_to_be_empty)
{
    AUTO_BUF(b, 1 << 20);

    CHECK_EQ(io_read_file(AT_FDCWD, "/proc/self/status", 1 << 16, &b, NULL), 0);
    CHECK(str_starts(buf_str(&b), STR("Name:")));
    CHECK_EQ(io_read_file(AT_FDCWD, "/proc/self/status", 10, &b, NULL), -EFBIG);
}

TEST(io, reads_regular_files_only)
{
    auto_scratch s = scratch_new();
    AUTO_BUF(b, 4096);
    struct err e = {0};

    CHECK_EQ(io_write_file_atomic(s.fd, "f", STR("12345"), 0600, NULL), 0);
    CHECK_EQ(io_read_regular(s.fd, "f", 5, &b, &e), 0);
    CHECK_STR(b.p, "12345");
    CHECK_EQ(io_read_regular(s.fd, "f", 4, &b, &e), -EFBIG);
    CHECK_EQ(io_read_regular(s.fd, "none", 4, &b, &e), -ENOENT);
    CHECK_EQ(mkfifoat(s.fd, "pipe", 0600), 0);
    CHECK_EQ(io_read_regular(s.fd, "pipe", 4, &b, &e), -EINVAL); /* and at once */
    CHECK_STR(e.msg, "read 'pipe': not a regular file");
    CHECK_EQ(io_read_regular(s.fd, ".", 4, &b, &e), -EINVAL);
    CHECK_STR(b.p, "12345");
}

TEST(io, replaces_a_file_in_one_step)
{
    auto_scratch s = scratch_new();
    AUTO_BUF(b, 4096);
    struct stat st;

    umask(077);
    CHECK_EQ(io_write_file_atomic(s.fd, "conf", STR("one"), 0644, NULL), 0);
    CHECK_EQ(fstatat(s.fd, "conf", &st, 0), 0);
    CHECK_EQ(st.st_mode & 07777, 0644); /* the umask does not narrow it */
    CHECK_EQ(io_write_file_atomic(s.fd, "conf", STR("second"), 0600, NULL), 0);
    CHECK_EQ(io_read_file(s.fd, "conf", 100, &b, NULL), 0);
    CHECK_STR(b.p, "second");
    CHECK_EQ(count_entries(&s), 1);
}

TEST(io, leaves_nothing_behind_when_a_file_cannot_be_replaced)
{
    auto_scratch s = scratch_new();
    struct err e = {0};

    CHECK_EQ(mkdirat(s.fd, "dir", 0700), 0);
    CHECK_EQ(io_write_file_atomic(s.fd, "dir", STR("x"), 0600, &e), -EISDIR);
    CHECK_STR(e.msg, "write 'dir': Is a directory");
    CHECK_EQ(count_entries(&s), 1);
    CHECK_EQ(io_write_file_atomic(s.fd, "a/b", STR("x"), 0600, &e), -EINVAL);
    CHECK_EQ(io_write_file_atomic(s.fd, "", STR("x"), 0600, &e), -EINVAL);
    CHECK_EQ(io_write_file_atomic(-EBADF, "f", STR("x"), 0600, &e), -EBADF);
    CHECK_EQ(unlinkat(s.fd, "dir", AT_REMOVEDIR), 0);
}
