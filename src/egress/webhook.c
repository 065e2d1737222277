#include "egress/webhook.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/json_write.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"

enum { BODY_BYTES_MAX = 4096, PAUSE_MS = 1000, US_PER_S = 1000000 };

struct report {
    struct list link;
    struct buf body;
    unsigned tries;
};

struct webhook {
    struct loop *loop;
    struct outcall *call;
    struct list reports; /* the first is under way */
    struct loop_timer timer;
    struct webhook_stats stats;
    struct log_limit dropped;
    bool busy;
};

static void send_first(struct webhook *w);

static void report_free(struct webhook *w, struct report *r)
{
    list_remove(&r->link);
    w->stats.waiting--;
    buf_done(&r->body);
    free(r);
}

static void on_pause(struct loop_timer *timer)
{
    struct webhook *w = container_of(timer, struct webhook, timer);

    w->busy = false;
    send_first(w);
}

static void on_sent(void *user, int status)
{
    struct webhook *w = user;
    struct report *r = container_of(w->reports.next, struct report, link);

    if ((status < 0 || status >= 500) && r->tries < WEBHOOK_TRIES) {
        loop_timer_after(w->loop, &w->timer, (uint64_t)PAUSE_MS << (r->tries - 1), on_pause);
        return;
    }
    if (status >= 200 && status < 300) {
        w->stats.sent++;
    } else {
        w->stats.failed++;
        log_event(LOG_WARN, "the webhook did not take a report, dropping it",
                  LOG_I64("status", status < 0 ? 0 : status),
                  LOG_I64("error", status < 0 ? -status : 0), LOG_U64("tries", r->tries));
    }
    report_free(w, r);
    w->busy = false;
    send_first(w);
}

static void send_first(struct webhook *w)
{
    struct report *r;

    while (!w->busy && !list_empty(&w->reports)) {
        r = container_of(w->reports.next, struct report, link);
        r->tries++;
        w->busy = true;
        if (outcall_post(w->call, buf_str(&r->body), on_sent, w) == 0)
            return;
        w->busy = false;
        w->stats.failed++;
        report_free(w, r);
    }
}

static int write_report(struct buf *out, struct str hostname, struct str sandbox)
{
    struct json_writer j;
    char at[TIME_TEXT_MAX];

    (void)time_format(time_wall_us() / US_PER_S * US_PER_S, at); /* no fraction */
    json_write_begin(&j, out);
    json_write_object(&j);
    json_member_string(&j, STR("hostname"), hostname);
    json_member_string(&j, STR("timestamp"), str_of(at));
    json_member_string(&j, STR("source"), STR("opensandbox-egress"));
    json_member_string(&j, STR("sandboxId"), sandbox);
    json_write_object_end(&j);
    return json_write_end(&j);
}

void webhook_denied(struct webhook *w, struct str hostname, struct str sandbox)
{
    struct report *r;

    if (!w || hostname.n == 0)
        return;
    if (w->stats.waiting >= WEBHOOK_QUEUE_MAX) {
        w->stats.dropped++;
        if (log_limit_pass(&w->dropped, loop_now_ns(w->loop)))
            log_event(LOG_WARN, "too many reports wait for the webhook, dropping one",
                      LOG_U64("dropped", w->stats.dropped));
        return;
    }
    r = mem_new(struct report);
    buf_init(&r->body, BODY_BYTES_MAX);
    list_push(&w->reports, &r->link);
    w->stats.waiting++;
    if (write_report(&r->body, hostname, sandbox) < 0)
        report_free(w, r);
    else
        send_first(w);
}

int webhook_new(const struct outcall_conf *conf, struct webhook **ret, struct err *e)
{
    struct webhook *w = mem_new(struct webhook);
    struct outcall_conf ours = *conf;
    int r;

    w->loop = conf->loop;
    list_init(&w->reports);
    ours.type = STR("application/json");
    ours.timeout_ms = WEBHOOK_TIMEOUT_MS;
    r = outcall_new(&ours, &w->call, e);
    if (r < 0) {
        free(w);
        return err_wrap(e, r, "URL of the webhook");
    }
    *ret = w;
    return 0;
}

void webhook_free(struct webhook *w)
{
    struct list *at;

    if (!w)
        return;
    loop_timer_stop(w->loop, &w->timer);
    outcall_free(w->call);
    while ((at = list_take(&w->reports)))
        report_free(w, container_of(at, struct report, link));
    free(w);
}

void webhook_stats(const struct webhook *w, struct webhook_stats *ret)
{
    *ret = w->stats;
}
