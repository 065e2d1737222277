#include "execd/code/jupyter/jupyter_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/time.h"
#include "execd/core/child.h"
#include "execd/core/path.h"

/* Below Linux's range of ephemeral ports (from 32768 by default): neither another program nor
 * our own connection attempts will occupy the port before the kernel listens. */
enum { PORT_FIRST = 20000, PORT_LAST = 31999, PORT_TRIES_MAX = 256, FILE_BYTES_MAX = 4096 };

static const char *const channel_names[JUPYTER_CHANNELS] = {
    [JUPYTER_SHELL] = "shell_port",  [JUPYTER_IOPUB] = "iopub_port",
    [JUPYTER_STDIN] = "stdin_port",  [JUPYTER_CONTROL] = "control_port",
    [JUPYTER_HEARTBEAT] = "hb_port",
};

static void socket_path(const struct jupyter_place *p, size_t channel, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/k-%u", p->dir, (unsigned)p->ports[channel]);
}

void jupyter_place_file(const struct jupyter_place *p, char ret[JUPYTER_FILE_MAX])
{
    (void)snprintf(ret, JUPYTER_FILE_MAX, "%s/connection.json", p->dir);
}

void jupyter_place_addr(const struct jupyter_place *p, enum jupyter_channel channel,
                        struct sock_addr *ret)
{
    *ret = (struct sock_addr){0};
    if (p->ipc) {
        ret->path.sun_family = AF_UNIX;
        socket_path(p, channel, ret->path.sun_path, sizeof(ret->path.sun_path));
        ret->size = sizeof(ret->path);
        return;
    }
    ret->v4.sin_family = AF_INET;
    ret->v4.sin_port = htons(p->ports[channel]);
    ret->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ret->size = sizeof(ret->v4);
}

static bool make_dir_in(struct jupyter_place *p, struct str parent)
{
    int n = snprintf(p->dir, sizeof(p->dir), "%.*s/jupyter-XXXXXX", STR_ARG(parent));
    bool fits = parent.n > 0 && parent.p[0] == '/' && n > 0 && (size_t)n < sizeof(p->dir);

    if (fits && mkdtemp(p->dir))
        return true;
    p->dir[0] = '\0';
    return false;
}

static int make_dir(struct jupyter_place *p, const char *const *env, struct err *e)
{
    const struct str parents[] = {path_env(env, STR("TMPDIR")), STR("/tmp"), STR("/var/tmp"),
                                  STR("/dev/shm"), STR("/run")};

    for (size_t i = 0; i < ARRAY_LEN(parents); i++)
        if (make_dir_in(p, parents[i]))
            return 0;
    return err_set(e, ENOSPC, "no folder for the kernel's connection file can be made in /tmp");
}

/* Binds a socket to a free port, which stays reserved while the socket is open. */
static int hold_port(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    auto_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
        return -errno;
    return take_fd(&fd);
}

static uint16_t random_port(void)
{
    uint16_t v;

    id_random_bytes(&v, sizeof(v));
    return (uint16_t)(PORT_FIRST + v % (PORT_LAST - PORT_FIRST + 1));
}

static int pick_ports(struct jupyter_place *p, struct err *e)
{
    int held[JUPYTER_CHANNELS];
    size_t n = 0;

    for (int tries = 0; n < JUPYTER_CHANNELS && tries < PORT_TRIES_MAX; tries++) {
        p->ports[n] = random_port();
        held[n] = hold_port(p->ports[n]);
        n += held[n] >= 0;
    }
    for (size_t i = 0; i < n; i++)
        fd_close(held[i]);
    return n == JUPYTER_CHANNELS ? 0 : err_set(e, EADDRINUSE, "no free port for the kernel");
}

static int describe(const struct jupyter_place *p, const struct jupyter_session *session,
                    const char *kernel_name, struct buf *out)
{
    struct json_writer w;
    char ip[JUPYTER_DIR_MAX + sizeof("/k")];

    (void)snprintf(ip, sizeof(ip), "%s/k", p->dir);
    json_write_begin(&w, out);
    json_write_object(&w);
    for (size_t i = 0; i < JUPYTER_CHANNELS; i++)
        json_member_u64(&w, str_of(channel_names[i]), p->ports[i]);
    json_member_string(&w, STR("ip"), str_of(p->ipc ? ip : "127.0.0.1"));
    json_member_string(&w, STR("transport"), str_of(p->ipc ? "ipc" : "tcp"));
    json_member_string(&w, STR("key"), str_of(session->key));
    json_member_string(&w, STR("signature_scheme"), STR("hmac-sha256"));
    json_member_string(&w, STR("kernel_name"), str_of(kernel_name));
    json_write_object_end(&w);
    return json_write_end(&w);
}

static int write_file(const struct jupyter_place *p, const struct jupyter_session *session,
                      const char *kernel_name, struct err *e)
{
    AUTO_BUF(text, FILE_BYTES_MAX);
    char path[JUPYTER_FILE_MAX];
    auto_fd fd = -EBADF;
    int r = describe(p, session, kernel_name, &text);

    jupyter_place_file(p, path);
    if (r < 0)
        return err_set(e, -r, "the name of the kernel is too long");
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : io_write_full(fd, buf_str(&text), DEADLINE_NEVER);
    return r < 0 ? err_sys(e, -r, "write '%s'", path) : 0;
}

int jupyter_place_make(struct jupyter_place *p, const char *const *env, bool ipc,
                       const struct child_user *user, const struct jupyter_session *session,
                       const char *kernel_name, struct err *e)
{
    struct child_fs fs;
    int r;

    *p = (struct jupyter_place){.ipc = ipc};
    for (size_t i = 0; i < JUPYTER_CHANNELS; i++)
        p->ports[i] = (uint16_t)(i + 1);
    r = ipc ? 0 : pick_ports(p, e);
    child_fs_enter(user, &fs);
    if (r >= 0)
        r = make_dir(p, env, e);
    if (r >= 0)
        r = write_file(p, session, kernel_name, e);
    child_fs_leave(&fs);
    if (r < 0)
        jupyter_place_remove(p);
    return r;
}

void jupyter_place_remove(struct jupyter_place *p)
{
    char path[JUPYTER_FILE_MAX];

    if (!p->dir[0])
        return;
    jupyter_place_file(p, path);
    (void)unlink(path);
    for (size_t i = 0; p->ipc && i < JUPYTER_CHANNELS; i++) {
        socket_path(p, i, path, sizeof(path));
        (void)unlink(path);
    }
    (void)rmdir(p->dir);
    p->dir[0] = '\0';
}
