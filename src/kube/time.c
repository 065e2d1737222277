#include "kube/time.h"

#include <stdio.h>

size_t kube_time_format(int64_t us, char out[TIME_TEXT_MAX])
{
    int64_t rest = us % TIME_US_PER_S;

    return time_format(us - (rest < 0 ? rest + TIME_US_PER_S : rest), out);
}

size_t kube_micro_time_format(int64_t us, char out[TIME_TEXT_MAX])
{
    int64_t rest = us % TIME_US_PER_S;
    size_t n = kube_time_format(us, out);

    /* time_format leaves a zero fraction out, which the server refuses here. */
    n--; /* the Z */
    return n + (size_t)snprintf(out + n, TIME_TEXT_MAX - n, ".%06dZ",
                                (int)(rest < 0 ? rest + TIME_US_PER_S : rest));
}
