#include "fake_registry.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/defs.h"

enum { HEAD_MAX = 16 * 1024, TARGET_MAX = 4096 };

static struct {
    struct fake_rule *rules;
    size_t count;
    int fd;
    char last[HEAD_MAX];
    unsigned requests;
} fake; /* a test is a process of its own */

const char *fake_registry_last(void)
{
    return fake.last;
}

unsigned fake_registry_requests(void)
{
    return __atomic_load_n(&fake.requests, __ATOMIC_ACQUIRE);
}

static bool read_head(int fd, char *head)
{
    size_t n = 0;

    while (n < HEAD_MAX - 1) {
        ssize_t got = recv(fd, head + n, HEAD_MAX - 1 - n, 0);

        if (got <= 0)
            return false;
        n += (size_t)got;
        head[n] = '\0';
        if (strstr(head, "\r\n\r\n"))
            return true;
    }
    return false;
}

static void send_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        p += sent;
        n -= (size_t)sent;
    }
}

static struct fake_rule *find(const char *head)
{
    char target[TARGET_MAX] = "";

    (void)sscanf(head, "%*s %4095s", target);
    for (size_t i = 0; i < fake.count; i++) {
        struct fake_rule *r = &fake.rules[i];

        if (strncmp(target, r->path, strlen(r->path)) == 0 &&
            (!r->needs || strstr(head, r->needs)) && (!r->times || r->hits < r->times))
            return r;
    }
    return NULL;
}

static void answer(int fd, struct fake_rule *r, const char *head)
{
    const char *range = strstr(head, "Range: bytes=");
    size_t from = r->ranges && range ? strtoul(range + 13, NULL, 10) : 0;
    size_t n = r->body_bytes - from;
    char text[2048], part[128] = "", length[64] = "";

    if (!r->head)
        return;
    if (from)
        snprintf(part, sizeof(part), "Content-Range: bytes %zu-%zu/%zu\r\n", from,
                 r->body_bytes - 1, r->body_bytes);
    if (!strstr(r->head, "Content-Length") && !strstr(r->head, "Transfer-Encoding"))
        snprintf(length, sizeof(length), "Content-Length: %zu\r\n", n);
    snprintf(text, sizeof(text), "%s%s%sConnection: close\r\n\r\n",
             from ? "HTTP/1.1 206 Partial Content\r\n" : r->head, part, length);
    send_all(fd, text, strlen(text));
    if (r->body)
        send_all(fd, (const char *)r->body + from, r->cut && r->cut < n ? r->cut : n);
    if (r->stalls)
        while (recv(fd, text, sizeof(text), 0) > 0)
            continue;
}

static void serve_one(int fd)
{
    static char head[HEAD_MAX];
    struct fake_rule *r;

    if (!read_head(fd, head))
        return;
    memcpy(fake.last, head, sizeof(head));
    __atomic_add_fetch(&fake.requests, 1, __ATOMIC_RELEASE);
    r = find(head);
    if (!r) {
        static const char none[] =
            "HTTP/1.1 404 Not Found\r\nContent-Length: 58\r\nConnection: close\r\n\r\n"
            "{\"errors\":[{\"code\":\"X_UNKNOWN\",\"message\":\"nothing here\"}]}";

        send_all(fd, none, sizeof(none) - 1);
        return;
    }
    r->hits++;
    answer(fd, r, head);
}

static void *serve(void *arg UNUSED)
{
    for (;;) {
        int fd = accept(fake.fd, NULL, NULL);

        if (fd < 0)
            continue;
        serve_one(fd);
        shutdown(fd, SHUT_WR);
        close(fd);
    }
    return NULL;
}

uint16_t fake_registry_start(struct fake_rule *rules, size_t count)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    pthread_t thread;

    fake.rules = rules;
    fake.count = count;
    fake.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fake.fd < 0 || bind(fake.fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
        listen(fake.fd, 64) < 0 || getsockname(fake.fd, (struct sockaddr *)&at, &n) < 0 ||
        pthread_create(&thread, NULL, serve, NULL) != 0) {
        perror("fake registry");
        abort();
    }
    return ntohs(at.sin_port);
}
