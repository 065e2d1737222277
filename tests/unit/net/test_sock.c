#include "net/sock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "test.h"

TEST(sock, reads_and_writes_addresses)
{
    static const struct {
        const char *text, *want; /* NULL = refused */
        unsigned port;
    } rows[] = {
        {"127.0.0.1:8080",        "127.0.0.1:8080",        8080 },
        {"0.0.0.0:0",             "0.0.0.0:0",             0    },
        {"255.255.255.255:65535", "255.255.255.255:65535", 65535},
        {"[::1]:80",              "[::1]:80",              80   },
        {"[2001:DB8:0:0::1]:1",   "[2001:db8::1]:1",       1    },
        {":8080",                 "[::]:8080",             8080 },
        {"unix:/run/x.sock",      "unix:/run/x.sock",      0    },
        {"unix:relative",         "unix:relative",         0    },
        {"unix:@abstract",        "unix:@abstract",        0    },
        {"",                      NULL,                    0    },
        {":",                     NULL,                    0    },
        {"8080",                  NULL,                    0    },
        {"127.0.0.1",             NULL,                    0    },
        {"127.0.0.1:",            NULL,                    0    },
        {"127.0.0.1:65536",       NULL,                    0    },
        {"127.0.0.1:-1",          NULL,                    0    },
        {"127.0.0.1:8080x",       NULL,                    0    },
        {"127.0.0.1 :80",         NULL,                    0    },
        {"127.0.0:80",            NULL,                    0    },
        {"127.0.0.256:80",        NULL,                    0    },
        {"localhost:80",          NULL,                    0    },
        {"::1:80",                NULL,                    0    },
        {"[::1]80",               NULL,                    0    },
        {"[]:80",                 NULL,                    0    },
        {"[::g]:80",              NULL,                    0    },
        {"[127.0.0.1]:80",        NULL,                    0    },
        {"unix:",                 NULL,                    0    },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[SOCK_ADDR_TEXT_MAX];
        struct sock_addr a;
        struct err e = {0};
        int r = sock_addr_parse(str_of(rows[i].text), &a, &e);

        if (!rows[i].want) {
            CHECK_EQ(r, -EINVAL);
            CHECK(e.msg[0]);
            continue;
        }
        CHECK_EQ(r, 0);
        sock_addr_format(&a, text);
        CHECK_STR(text, rows[i].want);
        CHECK_EQ(sock_addr_port(&a), rows[i].port);
    }
}

TEST(sock, bounds_unix_paths)
{
    char text[5 + 108 + 1] = "unix:";
    struct sock_addr a;

    memset(text + 5, 'a', 107);
    CHECK_EQ(sock_addr_parse(str_make(text, 5 + 107), &a, NULL), 0);
    text[5 + 107] = 'a';
    CHECK_EQ(sock_addr_parse(str_make(text, 5 + 108), &a, NULL), -EINVAL);
    text[8] = '\0';
    CHECK_EQ(sock_addr_parse(str_make(text, 20), &a, NULL), -EINVAL);
}

TEST(sock, formats_an_unset_address)
{
    char text[SOCK_ADDR_TEXT_MAX];
    struct sock_addr none = {0};

    sock_addr_format(&none, text);
    CHECK_STR(text, "-");
    CHECK_EQ(sock_addr_port(&none), 0);
}

TEST(sock, compares_addresses)
{
    struct sock_addr a, b;

    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:1"), &a, NULL), 0);
    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:1"), &b, NULL), 0);
    CHECK(sock_addr_eq(&a, &b));
    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:2"), &b, NULL), 0);
    CHECK(!sock_addr_eq(&a, &b));
    CHECK_EQ(sock_addr_parse(STR("unix:x"), &b, NULL), 0);
    CHECK(!sock_addr_eq(&a, &b));
}

TEST(sock, learns_the_port_it_was_given)
{
    struct sock_addr a, local;
    auto_fd fd = -EBADF, client = -EBADF;

    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:0"), &a, NULL), 0);
    fd = sock_listen(&a, 8, NULL);
    CHECK(fd >= 0);
    CHECK_EQ(sock_local_addr(fd, &local), 0);
    CHECK(sock_addr_port(&local) != 0);
    client = sock_connect_start(&local, NULL);
    CHECK(client >= 0);
    CHECK(sock_listen(&local, 8, NULL) == -EADDRINUSE);
}

TEST(sock, probes_peers_that_fell_silent)
{
    struct sock_addr a, local;
    auto_fd fd = -EBADF, client = -EBADF, accepted = -EBADF;
    int on = 0;
    socklen_t size = sizeof(on);

    CHECK_EQ(sock_addr_parse(STR("127.0.0.1:0"), &a, NULL), 0);
    fd = sock_listen(&a, 8, NULL);
    CHECK_EQ(sock_local_addr(fd, &local), 0);
    client = sock_connect_start(&local, NULL);
    while ((accepted = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) < 0)
        CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(getsockopt(accepted, SOL_SOCKET, SO_KEEPALIVE, &on, &size), 0);
    CHECK_EQ(on, 1);
}

/* --- unix sockets, in a directory that goes with the test --- */

static struct sock_addr unix_addr(char dir[], char path[108])
{
    char text[128];
    struct sock_addr a;

    CHECK(mkdtemp(dir));
    snprintf(path, 108, "%s/s", dir);
    snprintf(text, sizeof(text), "unix:%s", path);
    CHECK_EQ(sock_addr_parse(str_of(text), &a, NULL), 0);
    return a;
}

static void clean(const char *dir, const char *path)
{
    (void)unlink(path);
    (void)rmdir(dir);
}

TEST(sock, replaces_a_stale_unix_socket)
{
    char dir[] = "/tmp/test_sock.XXXXXX", path[108];
    struct sock_addr a = unix_addr(dir, path);
    int first = sock_listen(&a, 8, NULL), second;

    CHECK(first >= 0);
    fd_close(first); /* leaves its file behind */
    second = sock_listen(&a, 8, NULL);
    clean(dir, path);
    CHECK(second >= 0);
    fd_close(second);
}

TEST(sock, leaves_a_live_unix_socket_alone)
{
    char dir[] = "/tmp/test_sock.XXXXXX", path[108];
    struct sock_addr a = unix_addr(dir, path);
    auto_fd first = sock_listen(&a, 1, NULL), client = -EBADF;
    struct err e = {0};
    int r;

    CHECK(first >= 0);
    r = sock_listen(&a, 8, &e);
    client = sock_connect_start(&a, NULL);
    clean(dir, path);
    CHECK_EQ(r, -EADDRINUSE);
    CHECK(strstr(e.msg, path));
    CHECK(client >= 0);
}

TEST(sock, never_removes_what_is_not_a_socket)
{
    char dir[] = "/tmp/test_sock.XXXXXX", path[108];
    struct sock_addr a = unix_addr(dir, path);
    struct stat st;
    int r, kept;

    fd_close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    r = sock_listen(&a, 8, NULL);
    kept = lstat(path, &st);
    clean(dir, path);
    CHECK_EQ(r, -EADDRINUSE);
    CHECK_EQ(kept, 0);
}

/* A process that listens at a name until its end of the pair is closed. */
static pid_t start_listening(const struct sock_addr *a, int end)
{
    pid_t pid = fork();
    char byte = 0;

    if (pid != 0)
        return pid;
    if (sock_listen(a, 1, NULL) < 0)
        _exit(1);
    (void)!write(end, &byte, 1);
    (void)!read(end, &byte, 1);
    _exit(0);
}

TEST(sock, does_not_connect_to_a_process_that_took_its_name)
{
    struct sock_addr a = {.path = {.sun_family = AF_UNIX}};
    auto_fd listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto_fd mine = -EBADF, theirs = -EBADF, fd = -EBADF;
    int pair[2], status;
    char byte;
    pid_t pid;

    CHECK_EQ(bind(listener, &a.any, sizeof(a.path.sun_family)), 0);
    CHECK_EQ(listen(listener, 1), 0);
    CHECK_EQ(sock_local_addr(listener, &a), 0);
    a.ours = true;
    fd = sock_connect_start(&a, NULL);
    CHECK(fd >= 0);

    fd_close(take_fd(&listener));
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    mine = pair[0];
    theirs = pair[1];
    pid = start_listening(&a, theirs);
    fd_close(take_fd(&theirs));
    CHECK_EQ(read(mine, &byte, 1), 1);
    CHECK_EQ(sock_connect_start(&a, NULL), -ECONNREFUSED);
    a.ours = false;
    fd_close(take_fd(&fd));
    fd = sock_connect_start(&a, NULL);
    CHECK(fd >= 0);
    CHECK_EQ(write(mine, "", 1), 1);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}
