/* bucket.c - rate limits as token buckets. */
#include "kube/client_internal.h"

static double burst_of(const struct kube_bucket *b)
{
    double burst = b->rate.burst ? (double)b->rate.burst : b->rate.per_s;

    return burst < 1 ? 1 : burst;
}

void kube_bucket_init(struct kube_bucket *b, struct kube_rate rate, uint64_t now_ns)
{
    *b = (struct kube_bucket){.rate = rate, .at_ns = now_ns};
    b->tokens = burst_of(b);
}

uint64_t kube_bucket_take(struct kube_bucket *b, uint64_t now_ns)
{
    double burst = burst_of(b);

    if (b->rate.per_s <= 0)
        return 0;
    if (now_ns > b->at_ns) {
        b->tokens += (double)(now_ns - b->at_ns) / 1e9 * b->rate.per_s;
        b->at_ns = now_ns;
    }
    if (b->tokens > burst)
        b->tokens = burst;
    if (b->tokens < 1)
        return (uint64_t)((1 - b->tokens) / b->rate.per_s * 1e9) + 1;
    b->tokens -= 1;
    return 0;
}
