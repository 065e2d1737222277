#include "ingress/names.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"

enum { HOST_MAX = 256 };

struct kept_name {
    struct sock_addr addr; /* size 0: it has none */
    uint64_t until_ns;
};

struct job {
    struct pool_job job;
    struct names *names;
    http_wait_done_fn *done;
    void *done_user;
    struct sock_addr addr;
    char host[HOST_MAX];
};

void names_init(struct names *n, struct loop *loop, struct pool *pool)
{
    *n = (struct names){.loop = loop, .pool = pool};
    map_init(&n->kept, NAMES_KEPT_MAX, free);
}

void names_done(struct names *n)
{
    map_done(&n->kept);
}

static void set_port(struct sock_addr *addr, uint16_t port)
{
    if (addr->any.sa_family == AF_INET6)
        addr->v6.sin6_port = htons(port);
    else
        addr->v4.sin_port = htons(port);
}

int names_find(struct names *n, const char *host, uint16_t port, struct sock_addr *ret)
{
    char text[HOST_MAX + 16];
    const struct kept_name *k;

    (void)snprintf(text, sizeof(text), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
    if (host[0] && sock_addr_parse(str_of(text), ret, NULL) == 0)
        return 0;
    k = map_get(&n->kept, str_of(host));
    if (!k || loop_now_ns(n->loop) >= k->until_ns)
        return -EAGAIN;
    if (!k->addr.size)
        return -ENOENT;
    *ret = k->addr;
    set_port(ret, port);
    return 0;
}

static void keep(struct names *n, struct str host, const struct sock_addr *addr)
{
    struct kept_name *k = mem_new(struct kept_name);
    struct str oldest;
    size_t at = 0;

    *k = (struct kept_name){*addr, deadline_in_ms(addr->size ? NAMES_KEEP_MS : NAMES_NONE_MS)};
    if (n->kept.n >= NAMES_KEPT_MAX && map_next(&n->kept, &at, &oldest, NULL))
        (void)map_remove(&n->kept, oldest);
    (void)map_remove(&n->kept, host);
    if (map_add(&n->kept, host, k) < 0)
        free(k);
}

static void job_work(struct pool_job *pool_job)
{
    struct job *job = container_of(pool_job, struct job, job);

    if (sock_resolve(job->host, 1, &job->addr, NULL) < 0)
        job->addr = (struct sock_addr){0};
}

static void job_done(struct pool_job *pool_job, int error)
{
    struct job *job = container_of(pool_job, struct job, job);
    struct names *n = job->names;

    n->jobs--;
    if (!error)
        keep(n, str_of(job->host), &job->addr);
    job->done(job->done_user, error ? "the gateway ends" : NULL);
    free(job);
}

void names_ask(struct names *n, struct str host, http_wait_done_fn *done, void *done_user)
{
    struct job *job = mem_new(struct job);

    job->names = n;
    job->done = done;
    job->done_user = done_user;
    if (n->jobs == NAMES_JOBS_MAX || str_copy(job->host, sizeof(job->host), host) < 0 ||
        pool_submit(n->pool, &job->job, n->loop, job_work, job_done, 0) < 0) {
        free(job);
        done(done_user, "too many names are being looked up");
        return;
    }
    n->jobs++;
}
