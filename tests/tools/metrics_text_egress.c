/* metrics_text_egress - prints what /metrics of a sidecar would return, all figures being 0. */
#include <stdio.h>

#include "egress/metrics.h"

enum { TEXT_MAX = 1 << 20 };

int main(void)
{
    static struct egress g;
    static struct guarded b = {.egress = &g, .id = "box"};
    AUTO_BUF(text, TEXT_MAX);
    int r = metrics_text(&g, &text);

    if (r >= 0)
        r = metrics_text_of(&b, &text);
    if (r >= 0 && fwrite(text.p, 1, text.n, stdout) != text.n)
        r = -1;
    return r < 0;
}
