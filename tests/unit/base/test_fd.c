#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

/* A directory with: file, dir/inner, link -> /etc, up -> .., good -> dir/inner */
struct tree {
    char path[64];
    int fd;
};

static void tree_done(struct tree *t)
{
    static const char *const files[] = {"file", "dir/inner", "link", "up", "good", "new"};

    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        (void)unlinkat(t->fd, files[i], 0);
    (void)unlinkat(t->fd, "dir", AT_REMOVEDIR);
    fd_close(t->fd);
    (void)rmdir(t->path);
}
#define auto_tree __attribute__((cleanup(tree_done))) struct tree

static struct tree tree_new(void)
{
    struct tree t = {.path = "/tmp/test_fd.XXXXXX", .fd = -EBADF};

    CHECK(mkdtemp(t.path));
    t.fd = open(t.path, O_PATH | O_CLOEXEC);
    CHECK(t.fd >= 0);
    CHECK_EQ(mkdirat(t.fd, "dir", 0700), 0);
    fd_close(openat(t.fd, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    fd_close(openat(t.fd, "dir/inner", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    CHECK_EQ(symlinkat("/etc", t.fd, "link"), 0);
    CHECK_EQ(symlinkat("..", t.fd, "up"), 0);
    CHECK_EQ(symlinkat("dir/inner", t.fd, "good"), 0);
    return t;
}

TEST(fd, opens_no_further_than_its_policy)
{
    static const struct {
        const char *path;
        enum path_policy policy;
        int r;
    } rows[] = {
        {"file",        PATH_STRICT,  0      },
        {"dir/inner",   PATH_STRICT,  0      },
        {"dir/../file", PATH_STRICT,  0      },
        {"good",        PATH_STRICT,  -ELOOP },
        {"good",        PATH_BENEATH, 0      },
        {"link/passwd", PATH_BENEATH, -EXDEV },
        {"up",          PATH_BENEATH, -EXDEV },
        {"..",          PATH_BENEATH, -EXDEV },
        {"/etc/passwd", PATH_BENEATH, -EXDEV },
        {"link/passwd", PATH_IN_ROOT, -ENOENT},
        {"/file",       PATH_IN_ROOT, 0      },
        {"up/file",     PATH_IN_ROOT, 0      },
        {"link/passwd", PATH_FREE,    0      },
        {"none",        PATH_STRICT,  -ENOENT},
    };
    auto_tree t = tree_new();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {0};
        auto_fd fd = fd_open_at(t.fd, rows[i].path, O_RDONLY, 0, rows[i].policy, &e);

        CHECK_EQ(fd < 0 ? fd : 0, rows[i].r);
        CHECK_EQ(e.code, -rows[i].r);
        if (fd >= 0)
            CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    }
}

TEST(fd, creates_files_and_ignores_a_mode_that_has_no_use)
{
    auto_tree t = tree_new();
    struct stat st;

    umask(0);
    fd_close(fd_open_at(t.fd, "new", O_CREAT | O_WRONLY, 0640, PATH_STRICT, NULL));
    CHECK_EQ(fstatat(t.fd, "new", &st, 0), 0);
    CHECK_EQ(st.st_mode & 07777, 0640);
    { /* openat2 answers EINVAL to a mode without a file to create */
        auto_fd dir = fd_open_at(t.fd, "dir", O_RDONLY | O_DIRECTORY, 0640, PATH_STRICT, NULL);
        auto_fd temp = fd_open_at(t.fd, "dir", O_TMPFILE | O_WRONLY, 0640, PATH_STRICT, NULL);

        CHECK(dir >= 0);
        CHECK(temp >= 0 || temp == -EOPNOTSUPP);
    }
}

TEST(fd, names_the_path_it_could_not_open)
{
    struct err e = {0};

    CHECK_EQ(fd_open_at(AT_FDCWD, "/nonexistent/x", O_RDONLY, 0, PATH_FREE, &e), -ENOENT);
    CHECK_STR(e.msg, "open '/nonexistent/x': No such file or directory");
}

TEST(fd, closes_without_touching_errno)
{
    int fd = dup(0), moved;

    errno = EXDEV;
    fd_close(-EBADF);
    fd_close(999999);
    CHECK_EQ(errno, EXDEV);
    moved = take_fd(&fd);
    CHECK_EQ(fd, -EBADF);
    CHECK_EQ(fcntl(moved, F_GETFD), 0);
    fd_close(moved);
    CHECK_EQ(fcntl(moved, F_GETFD), -1);
}

TEST(fd, switches_blocking_off_and_on)
{
    int p[2];

    CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
    CHECK_EQ(fd_set_nonblock(p[0], true), 0);
    CHECK(fcntl(p[0], F_GETFL) & O_NONBLOCK);
    CHECK_EQ(fd_set_nonblock(p[0], false), 0);
    CHECK(!(fcntl(p[0], F_GETFL) & O_NONBLOCK));
    CHECK_EQ(fd_set_nonblock(-1, true), -EBADF);
}

static size_t count_open(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    CHECK(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

TEST(fd, sends_descriptors_beside_a_message)
{
    int s[2], fds[FD_SEND_MAX], send[FD_SEND_MAX];
    char room[8];
    size_t n = 0, count = 0;
    struct stat mine, theirs;

    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
    for (int i = 0; i < FD_SEND_MAX; i++)
        send[i] = s[i % 2];
    CHECK_EQ(fd_send(s[0], "hello", 5, send, FD_SEND_MAX), 0);
    CHECK_EQ(fd_recv(s[1], room, sizeof(room), &n, fds, &count), 0);
    CHECK(n == 5 && memcmp(room, "hello", 5) == 0);
    CHECK_EQ(count, FD_SEND_MAX);
    CHECK_EQ(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
    CHECK(fstat(send[1], &mine) == 0 && fstat(fds[1], &theirs) == 0);
    CHECK_EQ(mine.st_ino, theirs.st_ino);
    for (size_t i = 0; i < count; i++)
        fd_close(fds[i]);
    CHECK_EQ(fd_send(s[0], "x", 1, NULL, 0), 0);
    CHECK_EQ(fd_recv(s[1], room, sizeof(room), &n, fds, &count), 0);
    CHECK(n == 1 && count == 0);
    CHECK_EQ(fd_send(s[0], "x", 1, send, FD_SEND_MAX + 1), -EINVAL);
    close(s[0]);
    CHECK_EQ(fd_recv(s[1], room, sizeof(room), &n, fds, &count), 0);
    CHECK_EQ(n, 0);
    CHECK_EQ(fd_send(s[1], "x", 1, NULL, 0), -EPIPE); /* and no signal */
}

/* More descriptors in one message than fd_send would: what a hostile peer can do. */
static void send_many(int sock, int fd, size_t count)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int) * (FD_SEND_MAX + 5))];
    } control = {0};
    char byte = 0;
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room};
    int fds[FD_SEND_MAX + 5];

    for (size_t i = 0; i < count; i++)
        fds[i] = fd;
    msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * count);
    CHECK_EQ(sendmsg(sock, &msg, 0), 1);
}

TEST(fd, keeps_nothing_of_a_message_that_was_cut)
{
    int s[2], fds[FD_SEND_MAX], one;
    char room[8];
    size_t n = 99, count = 99, open_before;

    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
    for (int i = 0; i < FD_SEND_MAX; i++)
        fds[i] = -EBADF;
    one = s[0];
    open_before = count_open();
    CHECK_EQ(fd_send(s[0], "far too long", 12, &one, 1), 0);
    CHECK_EQ(fd_recv(s[1], room, sizeof(room), &n, fds, &count), -EMSGSIZE);
    send_many(s[0], s[0], FD_SEND_MAX + 5);
    CHECK_EQ(fd_recv(s[1], room, sizeof(room), &n, fds, &count), -EMSGSIZE);
    CHECK_EQ(count_open(), open_before);
    CHECK(n == 99 && count == 99);
    for (int i = 0; i < FD_SEND_MAX; i++)
        CHECK_EQ(fds[i], -EBADF); /* no number that was closed, to be closed again */
}

TEST(fd, makes_room_for_large_messages)
{
    enum { SMALL = 4096, LARGE = 192 * 1024 };
    static char data[LARGE], room[LARGE];
    int s[2], fds[FD_SEND_MAX], small = SMALL;
    size_t n = 0, count = 0;

    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
    CHECK_EQ(setsockopt(s[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    CHECK_EQ(fd_send(s[0], data, sizeof(data), NULL, 0), -EMSGSIZE);
    fd_set_send_room(s[0], sizeof(data));
    CHECK_EQ(fd_send(s[0], data, sizeof(data), NULL, 0), 0);
    CHECK_EQ(fd_recv(s[1], room, sizeof(room), &n, fds, &count), 0);
    CHECK_EQ(n, sizeof(data));
    close(s[0]);
    close(s[1]);
}

TEST(fd, makes_a_pipe_of_which_only_our_end_does_not_block)
{
    static const enum fd_pipe_end ends[] = {FD_PIPE_READ, FD_PIPE_WRITE};

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        auto_fd ours = -EBADF, theirs = -EBADF;
        char c = 0;

        CHECK_EQ(fd_pipe(ends[i], &ours, &theirs, NULL), 0);
        CHECK(fcntl(ours, F_GETFL) & O_NONBLOCK);
        CHECK(!(fcntl(theirs, F_GETFL) & O_NONBLOCK));
        CHECK(fcntl(ours, F_GETFD) & FD_CLOEXEC && fcntl(theirs, F_GETFD) & FD_CLOEXEC);
        CHECK_EQ(write(ends[i] == FD_PIPE_WRITE ? ours : theirs, "x", 1), 1);
        CHECK_EQ(read(ends[i] == FD_PIPE_WRITE ? theirs : ours, &c, 1), 1);
        CHECK_EQ(c, 'x');
    }
}

TEST(fd, makes_files_without_a_name)
{
    char dir[] = "/tmp/test-fd-XXXXXX";
    struct stat st;

    CHECK(mkdtemp(dir));
    for (int i = 0; i < 4; i++) {
        const char *const where[] = {dir, NULL, "", "/proc"}; /* the latter accepts none */
        auto_fd fd = fd_nameless(where[i]);

        CHECK(fd >= 0);
        CHECK_EQ(write(fd, "x", 1), 1);
        CHECK_EQ(fstat(fd, &st), 0);
        CHECK_EQ(st.st_nlink, 0);
        CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    }
    CHECK_EQ(rmdir(dir), 0); /* nothing is left in it */
}

TEST(fd, makes_files_in_memory_that_can_be_sealed)
{
    auto_fd fd = fd_memory("test");

    CHECK(fd >= 0);
    CHECK_EQ(write(fd, "x", 1), 1);
    CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    CHECK_EQ(write(fd, "x", 1), -1);
}
