#include "server/gateway/wake.h"

#include "base/mem.h"
#include "base/time.h"

enum { WAITING_MAX = 1024 };

/* A sandbox that is being started. */
struct wake {
    struct list link;
    struct wakes *all; /* NULL: freed meanwhile */
    struct list waiters;
    char id[WAKE_ID_MAX];
};

struct waiter {
    struct list link; /* in wake.waiters; of its own once it gave up */
    struct wakes *all;
    struct http_req *req;
    struct loop_timer late;
};

static struct wake *wake_find(const struct wakes *w, struct str id)
{
    LIST_EACH(&w->all, at)
    {
        struct wake *wake = container_of(at, struct wake, link);

        if (str_eq(str_of(wake->id), id))
            return wake;
    }
    return NULL;
}

bool wakes_can(const struct wakes *w, struct str sandbox_id, bool stopped)
{
    return w->wait_ms && w->waiting < WAITING_MAX && sandbox_id.n < WAKE_ID_MAX &&
           (stopped || wake_find(w, sandbox_id));
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
    (void)http_reply_header(waiter->req, STR("Retry-After"), STR("1"));
    http_reply_error(waiter->req, 503, "DOCKER::SANDBOX_NOT_RUNNING",
                     "the sandbox was stopped and is being started for this request, which takes "
                     "longer than %u s; try again",
                     waiter->all->wait_ms / 1000);
}

static void on_woken(void *user, const char *why)
{
    struct wake *wake = user;

    list_remove(&wake->link); /* a request that is served now does not join it */
    while (wake->all && !list_empty(&wake->waiters)) {
        struct waiter *waiter = container_of(wake->waiters.next, struct waiter, link);
        struct http_req *req = waiter->req;

        waiter_free(waiter);
        req->ops = &over_ops;
        req->user = NULL;
        http_req_resume(req); /* in a later turn; the request may be gone after the next call */
        wake->all->serve(wake->all->owner, req, why);
    }
    free(wake);
}

void wakes_wait(struct wakes *w, struct str sandbox_id, struct http_req *req)
{
    struct wake *wake = wake_find(w, sandbox_id);
    struct waiter *waiter = mem_new(struct waiter);
    bool first = !wake;

    if (first) {
        wake = mem_new(struct wake);
        wake->all = w;
        list_init(&wake->waiters);
        (void)!str_copy(wake->id, sizeof(wake->id), sandbox_id);
        list_push(&w->all, &wake->link);
    }
    *waiter = (struct waiter){.all = w, .req = req};
    list_push(&wake->waiters, &waiter->link);
    w->waiting++;
    req->ops = &waiter_ops;
    req->user = waiter;
    http_req_be_patient(req);
    loop_timer_set(w->loop, &waiter->late, deadline_in_ms(w->wait_ms), on_late);
    if (first)
        w->start(w->user, sandbox_id, on_woken, wake);
}

void wakes_done(struct wakes *w)
{
    LIST_EACH(&w->all, at)
    {
        struct wake *wake = container_of(at, struct wake, link);

        list_remove(&wake->link);
        wake->all = NULL; /* on_woken frees it */
    }
}
