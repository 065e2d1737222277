/* metrics_text - prints what /metrics would return after some requests, for other parsers to
 * check. */
#include <stdio.h>

#include "server/http/metrics.h"

enum { TEXT_MAX = 1 << 20 };

static const struct http_route routes[] = {
    {.methods = HTTP_BIT(HTTP_GET) | HTTP_BIT(HTTP_POST), .path = "/v1/sandboxes"                 },
    {.methods = HTTP_ANY_METHOD,                          .path = "/sandboxes/{id}/proxy/{port}/*"},
};

int main(void)
{
    struct metrics *m = metrics_new(routes, ARRAY_LEN(routes));
    struct metrics_gauges g = {.sandboxes[SANDBOX_RUNNING] = 2,
                               .has_slots = true,
                               .loop_lag_ns = 1500000,
                               .has_telemetry = true};
    AUTO_BUF(text, TEXT_MAX);
    int r;

    for (uint64_t ms = 1; ms <= 100; ms++) {
        metrics_request(m, &routes[0], HTTP_GET, 200, ms * 1000000);
        metrics_create(m, ms * 1000000);
    }
    metrics_request(m, &routes[0], HTTP_POST, 503, 1);
    metrics_request(m, &routes[1], HTTP_OTHER, 101, UINT64_C(3600000000000));
    metrics_request(m, NULL, HTTP_GET, 404, 1);
    metrics_read_process(&g);
    r = metrics_render(m, &g, &text);
    if (r >= 0 && fwrite(text.p, 1, text.n, stdout) != text.n)
        r = -1;
    metrics_free(m);
    return r < 0;
}
