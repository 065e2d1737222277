#include "execd/metrics/spans.h"

#include <errno.h>

void spans_init(struct spans *s)
{
    *s = (struct spans){0};
    buf_init(&s->waiting, SPANS_BYTES_MAX);
}

void spans_done(struct spans *s)
{
    buf_done(&s->waiting);
}

void spans_add(struct spans *s, const struct trace_row *row)
{
    size_t before = s->waiting.n;

    if (otlp_json_span(&s->waiting, row) == 0 && buf_add_char(&s->waiting, '\n') == 0)
        return;
    buf_cut(&s->waiting, before);
    s->dropped++;
}

int spans_send(struct spans *s, const struct otlp_conf *conf, struct buf *body)
{
    struct str rest = buf_str(&s->waiting), line;
    int r = rest.n ? otlp_json_head(body, OTLP_TRACES, conf) : -EAGAIN;

    for (size_t i = 0; r == 0 && rest.n > 0 && i < SPANS_BATCH_MAX; i++) {
        (void)str_cut(&rest, '\n', &line);
        r = i > 0 ? buf_add_char(body, ',') : 0;
        if (r == 0)
            r = buf_add(body, line);
    }
    if (r == 0)
        r = otlp_json_tail(body);
    s->sending = r < 0 ? 0 : s->waiting.n - rest.n;
    return r;
}

void spans_sent(struct spans *s, bool taken)
{
    if (taken)
        buf_drop_front(&s->waiting, s->sending);
    if (s->waiting.n == 0)
        buf_done(&s->waiting); /* an idle execd keeps no memory for it */
    s->sending = 0;
}
