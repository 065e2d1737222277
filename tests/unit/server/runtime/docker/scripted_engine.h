/* scripted_engine.h - an engine on a unix socket that answers what the test wrote, one connection
 * after the other, and keeps what it was asked. */
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "test.h"

enum { SCRIPT_MAX = 8 };

struct scripted_engine {
    char path[108], host[128];
    const char *answers[SCRIPT_MAX]; /* sent as they are; NULL: the connection is closed */
    char asked[SCRIPT_MAX][8192];
    int count, listener;
    bool silent; /* keeps the connection open after the last answer */
    pthread_t thread;
};

/* Reads a head, and a body of Content-Length. */
static void engine_read(int fd, char *out, size_t max)
{
    size_t n = 0, want = 0;

    for (;;) {
        ssize_t got = n + 1 < max ? recv(fd, out + n, max - n - 1, 0) : 0;
        char *end, *length;

        if (got <= 0)
            return;
        n += (size_t)got;
        out[n] = '\0';
        end = strstr(out, "\r\n\r\n");
        length = strstr(out, "Content-Length: ");
        want = length ? strtoul(length + 16, NULL, 10) : 0;
        if (end && n >= (size_t)(end + 4 - out) + want)
            return;
    }
}

static void *engine_run(void *p)
{
    struct scripted_engine *s = p;

    for (int i = 0; i < SCRIPT_MAX && s->count > i; i++) {
        auto_fd fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
        char byte;

        if (fd < 0)
            return NULL;
        engine_read(fd, s->asked[i], sizeof(s->asked[i]));
        if (s->answers[i])
            (void)!send(fd, s->answers[i], strlen(s->answers[i]), MSG_NOSIGNAL);
        if (s->silent)
            (void)!recv(fd, &byte, 1, 0);
    }
    return NULL;
}

static void engine_start_script(struct scripted_engine *s)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    (void)snprintf(s->path, sizeof(s->path), "/tmp/osb-engine-%d", (int)getpid());
    (void)snprintf(s->host, sizeof(s->host), "unix://%s", s->path);
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", s->path);
    (void)unlink(s->path);
    while (s->count < SCRIPT_MAX && s->answers[s->count])
        s->count++;
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(s->listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    CHECK_EQ(listen(s->listener, 8), 0);
    CHECK_EQ(pthread_create(&s->thread, NULL, engine_run, s), 0);
}

static void engine_end_script(struct scripted_engine *s)
{
    (void)shutdown(s->listener, SHUT_RDWR);
    (void)pthread_join(s->thread, NULL);
    fd_close(s->listener);
    (void)unlink(s->path);
}

#define HTTP_ANSWER(status, body) "HTTP/1.1 " status "\r\nConnection: close\r\n\r\n" body
