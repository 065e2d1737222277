#include "net/http_wait.h"

#include "base/mem.h"
#include "base/time.h"

enum { WAITING_MAX = 1024 };

/* What is being started. */
struct http_wait {
    struct list link;
    struct http_waits *all; /* NULL: freed meanwhile */
    struct list waiters;
    char key[HTTP_WAIT_KEY_MAX];
};

struct waiter {
    struct list link; /* in http_wait.waiters; of its own once it gave up */
    struct http_waits *all;
    struct http_req *req;
    struct loop_timer late;
};

static struct http_wait *wait_find(const struct http_waits *w, struct str key)
{
    LIST_EACH(&w->all, at)
    {
        struct http_wait *wait = container_of(at, struct http_wait, link);

        if (str_eq(str_of(wait->key), key))
            return wait;
    }
    return NULL;
}

bool http_waits_can(const struct http_waits *w, struct str key, bool startable)
{
    return w->wait_ms && w->waiting < WAITING_MAX && key.n < HTTP_WAIT_KEY_MAX &&
           (startable || wait_find(w, key));
}

static void waiter_leave(struct waiter *waiter)
{
    loop_timer_stop(waiter->all->loop, &waiter->late);
    list_remove(&waiter->link);
}

static void waiter_free(struct waiter *waiter)
{
    waiter_leave(waiter);
    waiter->all->waiting--;
    free(waiter);
}

/* The body waits with its request. */
static ssize_t on_body(struct http_req *req UNUSED, struct str piece UNUSED)
{
    return 0;
}

static void on_close(struct http_req *req, int error UNUSED)
{
    waiter_free(req->user);
}

static const struct http_req_ops waiter_ops = {.on_body = on_body, .on_close = on_close};

/* Of a request that is answered without being forwarded. */
static ssize_t on_rest(struct http_req *req UNUSED, struct str piece)
{
    return (ssize_t)piece.n;
}

static const struct http_req_ops over_ops = {.on_body = on_rest};

static void on_late(struct loop_timer *timer)
{
    struct waiter *waiter = container_of(timer, struct waiter, late);

    waiter_leave(waiter); /* freed when the answer is sent */
    waiter->all->late(waiter->all->owner, waiter->req);
}

static void on_started(void *user, const char *why)
{
    struct http_wait *wait = user;
    struct list *at;

    list_remove(&wait->link); /* a request that is served now does not join it */
    while (wait->all && (at = list_take(&wait->waiters))) {
        struct waiter *waiter = container_of(at, struct waiter, link);
        struct http_req *req = waiter->req;

        waiter_free(waiter);
        req->ops = &over_ops;
        req->user = NULL;
        http_req_resume(req); /* in a later turn; the request may be gone after the next call */
        wait->all->serve(wait->all->owner, req, why);
    }
    free(wait);
}

void http_waits_add(struct http_waits *w, struct str key, struct http_req *req)
{
    struct http_wait *wait = wait_find(w, key);
    struct waiter *waiter = mem_new(struct waiter);
    bool first = !wait;

    if (first) {
        wait = mem_new(struct http_wait);
        wait->all = w;
        list_init(&wait->waiters);
        (void)!str_copy(wait->key, sizeof(wait->key), key);
        list_push(&w->all, &wait->link);
    }
    *waiter = (struct waiter){.all = w, .req = req};
    list_push(&wait->waiters, &waiter->link);
    w->waiting++;
    req->ops = &waiter_ops;
    req->user = waiter;
    http_req_be_patient(req);
    loop_timer_set(w->loop, &waiter->late, deadline_in_ms(w->wait_ms), on_late);
    if (first)
        w->start(w->user, key, on_started, wait);
}

void http_waits_done(struct http_waits *w)
{
    LIST_EACH(&w->all, at)
    {
        struct http_wait *wait = container_of(at, struct http_wait, link);

        list_remove(&wait->link);
        wait->all = NULL; /* on_started frees it */
    }
}
