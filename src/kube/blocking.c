#include "kube/blocking.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/mem.h"
#include "base/time.h"
#include "kube/client_internal.h"

enum {
    CONNS_KEPT_MAX = 64,
    CANCEL_LOOK_MS = 100,
    ENDING_MS = 1000, /* past the deadline, for the client to say why */
};

/* A loop and a client that one thread at a time drives. */
struct conn {
    struct loop *loop;
    struct kube_client *client;
};

struct kube_blocking {
    struct kube_blocking_conf conf;
    pthread_mutex_t lock; /* protects the rest */
    struct conn *idle[CONNS_KEPT_MAX];
    size_t idle_count;
    struct kube_bucket reads, writes;
};

static void conn_free(struct conn *c)
{
    if (!c)
        return;
    kube_client_free(c->client);
    loop_free(c->loop);
    free(c);
}

static int conn_new(struct kube_blocking *b, struct conn **ret, struct err *e)
{
    struct conn *c = mem_new(struct conn);
    struct kube_client_conf conf = {
        .config = b->conf.config, .user_agent = b->conf.user_agent, .inflight_max = 1};
    int r = loop_new(&c->loop, e);

    conf.loop = c->loop;
    if (r == 0)
        r = kube_client_new(&conf, &c->client, e);
    if (r < 0) {
        conn_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

static int conn_take(struct kube_blocking *b, struct conn **ret, struct err *e)
{
    struct conn *c = NULL;

    (void)pthread_mutex_lock(&b->lock);
    if (b->idle_count)
        c = b->idle[--b->idle_count];
    (void)pthread_mutex_unlock(&b->lock);
    if (!c)
        return conn_new(b, ret, e);
    (void)loop_turn(c->loop, 0, NULL); /* notices that the server closed it meanwhile */
    *ret = c;
    return 0;
}

static void conn_give_back(struct kube_blocking *b, struct conn *c)
{
    (void)pthread_mutex_lock(&b->lock);
    if (b->idle_count < CONNS_KEPT_MAX) {
        b->idle[b->idle_count++] = c;
        c = NULL;
    }
    (void)pthread_mutex_unlock(&b->lock);
    conn_free(c);
}

static bool is_cancelled(const struct kube_request *rq)
{
    return rq->cancelled && atomic_load(rq->cancelled);
}

/* Waits for its turn by the rate limit. */
static int wait_turn(struct kube_blocking *b, const struct kube_request *rq, uint64_t deadline,
                     struct err *e)
{
    bool read = rq->verb == KUBE_GET || rq->verb == KUBE_LIST;

    while (true) {
        uint64_t ns;

        (void)pthread_mutex_lock(&b->lock);
        ns = kube_bucket_take(read ? &b->reads : &b->writes, time_mono_ns());
        (void)pthread_mutex_unlock(&b->lock);
        if (!ns)
            return 0;
        if (is_cancelled(rq))
            return err_set(e, ECANCELED, "cancelled");
        if (deadline_passed(deadline))
            return err_set(e, EAGAIN, "too many requests to Kubernetes wait: its rate is limited");
        if (ns > CANCEL_LOOK_MS * TIME_NS_PER_MS)
            ns = CANCEL_LOOK_MS * TIME_NS_PER_MS;
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
    }
}

struct outcome {
    struct kube_object *object;
    struct kube_error error;
    bool done;
};

static void on_done(void *user, const struct kube_answer *answer)
{
    struct outcome *o = user;

    o->done = true;
    o->error = answer->error;
    if (answer->object && !answer->error.err.code)
        o->object = kube_object_ref(answer->object);
}

static void drive(struct conn *conn, const struct kube_request *rq, struct outcome *o)
{
    uint64_t deadline = deadline_in_ms(rq->timeout_ms + ENDING_MS);
    struct kube_call *call = NULL;

    loop_refresh(conn->loop);
    if (kube_send(conn->client, rq, on_done, o, &call, &o->error.err) < 0)
        return;
    while (!o->done) {
        int left = deadline_left_ms(deadline);

        if (left == 0 || is_cancelled(rq)) {
            (void)err_set(&o->error.err, left ? ECANCELED : ETIMEDOUT, "%s",
                          left ? "cancelled" : "the Kubernetes API server did not answer");
            kube_cancel(call);
            return;
        }
        if (rq->cancelled && left > CANCEL_LOOK_MS)
            left = CANCEL_LOOK_MS;
        (void)loop_turn(conn->loop, left, NULL);
    }
}

int kube_blocking_call(struct kube_blocking *b, const struct kube_request *request,
                       struct kube_object **ret_object, struct kube_error *error)
{
    struct kube_request rq = *request;
    struct outcome o = {0};
    struct conn *conn = NULL;
    int r;

    if (!rq.timeout_ms)
        rq.timeout_ms = KUBE_TIMEOUT_MS;
    r = wait_turn(b, &rq, deadline_in_ms(rq.timeout_ms), &o.error.err);
    if (r == 0)
        r = conn_take(b, &conn, &o.error.err);
    if (r == 0) {
        drive(conn, &rq, &o);
        conn_give_back(b, conn);
    }
    if (error)
        *error = o.error;
    if (ret_object)
        *ret_object = o.object;
    else
        kube_object_unref(o.object);
    return -o.error.err.code;
}

int kube_blocking_new(const struct kube_blocking_conf *conf, struct kube_blocking **ret,
                      struct err *e)
{
    struct kube_blocking *b = mem_new(struct kube_blocking);
    struct conn *first = NULL;
    int r;

    b->conf = *conf;
    (void)pthread_mutex_init(&b->lock, NULL);
    kube_bucket_init(&b->reads, conf->reads, time_mono_ns());
    kube_bucket_init(&b->writes, conf->writes, time_mono_ns());
    r = conn_new(b, &first, e); /* tells early that a certificate cannot be read */
    if (r < 0) {
        kube_blocking_free(b);
        return r;
    }
    conn_give_back(b, first);
    *ret = b;
    return 0;
}

void kube_blocking_free(struct kube_blocking *b)
{
    if (!b)
        return;
    while (b->idle_count)
        conn_free(b->idle[--b->idle_count]);
    (void)pthread_mutex_destroy(&b->lock);
    free(b);
}
