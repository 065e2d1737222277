#include "server/core/renew.h"

#include "base/time.h"

int64_t renew_due(const struct renew_facts *f)
{
    int64_t wanted = f->now_us + f->extend_s * TIME_US_PER_S;
    int64_t since = f->now_us - f->renewed_us;

    if (f->state != SANDBOX_RUNNING || !f->extend_s || f->expires_us <= f->now_us)
        return 0;
    /* After the clock was set back, renewal must not wait until it has caught up. */
    if (f->renewed_us && since >= 0 && since < f->min_interval_s * TIME_US_PER_S)
        return 0;
    return wanted > f->expires_us ? wanted : 0;
}
