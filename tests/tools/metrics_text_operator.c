/* metrics_text_operator - prints what /metrics of the operator would return at its start. */
#include <stdio.h>

#include "operator/serve.h"

enum { TEXT_MAX = 1 << 20 };

int main(void)
{
    static struct operator op;
    AUTO_BUF(text, TEXT_MAX);
    int r = serve_metrics(&op, &text);

    if (r >= 0 && fwrite(text.p, 1, text.n, stdout) != text.n)
        r = -1;
    return r < 0;
}
