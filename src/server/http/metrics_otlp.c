#include "server/http/metrics_otlp.h"

#include <stdio.h>

void metrics_otlp_begin(struct metrics_otlp *o, const struct otlp_json_metric *clock,
                        struct buf *out)
{
    *o = (struct metrics_otlp){.out = out, .before = out->n, .metric = *clock};
    json_write_begin(&o->w, out);
    json_write_array(&o->w);
}

static struct str unit_of(struct str name)
{
    if (str_ends(name, STR("_seconds")))
        return STR("s");
    return str_ends(name, STR("_bytes")) ? STR("By") : STR("");
}

static void close_metric(struct metrics_otlp *o)
{
    if (o->open)
        otlp_json_metric_end(&o->metric);
    o->open = false;
}

void metrics_otlp_head(struct metrics_otlp *o, const char *name, const char *type, const char *help)
{
    char full[128];

    close_metric(o);
    (void)snprintf(full, sizeof(full), "opensandbox_%s", name);
    o->metric.kind = type[0] == 'c' ? OTLP_COUNTER : type[0] == 'h' ? OTLP_HISTOGRAM : OTLP_GAUGE;
    otlp_json_metric_begin(&o->metric, &o->w, str_of(full), str_of(help), unit_of(str_of(name)));
    o->open = true;
    o->count++;
}

struct labels {
    char keys[METRICS_OTLP_LABELS_MAX][METRICS_OTLP_KEY_MAX];
    struct trace_attribute rows[METRICS_OTLP_LABELS_MAX];
    size_t count;
};

static void read_labels(const char *text, struct labels *ret)
{
    struct str rest = str_of(text), key, value, comma;

    ret->count = 0;
    while (rest.n > 0 && ret->count < METRICS_OTLP_LABELS_MAX && str_cut(&rest, '=', &key) &&
           rest.n > 0) {
        rest = str_skip(rest, 1); /* a quote */
        (void)str_cut(&rest, '"', &value);
        (void)str_cut(&rest, ',', &comma);
        if (str_copy(ret->keys[ret->count], METRICS_OTLP_KEY_MAX, key) < 0)
            continue;
        ret->rows[ret->count] = (struct trace_attribute){ret->keys[ret->count], value, 0};
        ret->count++;
    }
}

void metrics_otlp_value(struct metrics_otlp *o, const char *labels, double value, bool is_integer)
{
    struct labels l;

    read_labels(labels, &l);
    otlp_json_point(&o->metric, l.rows, l.count, value, is_integer);
}

void metrics_otlp_histogram(struct metrics_otlp *o, const char *labels,
                            const struct otlp_histogram *h)
{
    struct labels l;

    read_labels(labels, &l);
    otlp_json_point_histogram(&o->metric, l.rows, l.count, h);
}

int metrics_otlp_end(struct metrics_otlp *o, uint64_t *ret_count)
{
    struct buf *out = o->out;
    int r;

    close_metric(o);
    json_write_array_end(&o->w);
    r = json_write_end(&o->w);
    if (r < 0)
        return r;
    memmove(out->p + o->before, out->p + o->before + 1, out->n - o->before - 2);
    buf_cut(out, out->n - 2); /* the brackets */
    *ret_count = o->count;
    return 0;
}
