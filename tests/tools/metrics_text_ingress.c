/* metrics_text_ingress - prints what /metrics of the gateway would return after some requests. */
#include <stdio.h>

#include "ingress/intent.h"
#include "ingress/metrics.h"

enum { TEXT_MAX = 1 << 20 };

int main(void)
{
    static struct metrics m;
    struct metrics *workers[] = {&m};
    struct intents_stats intents = {0};
    struct metrics_rest rest = {.intents = &intents};
    AUTO_BUF(text, TEXT_MAX);
    int r;

    metric_status(&m, 200);
    metric_status(&m, 503);
    r = metrics_write(&text, workers, ARRAY_LEN(workers), &rest);
    if (r >= 0 && fwrite(text.p, 1, text.n, stdout) != text.n)
        r = -1;
    return r < 0;
}
