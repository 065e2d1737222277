/* broker_faults.c - makes a broker fail on purpose. Linked with the broker's own objects into a
 * program of the tests; the broker that is installed knows nothing of it.
 *
 * OSB_FAULT_STEP=N: the Nth step of every sandbox on its way fails. */
#include <stdlib.h>

#include "base/fault.h"
#include "base/str.h"

static __attribute__((constructor)) void arm(void)
{
    const char *text = getenv("OSB_FAULT_STEP");
    uint64_t n;

    /* Each child counts in its own copy of the memory, the broker itself never hits one. */
    if (text && str_to_u64_range(str_of(text), 1, 100, &n) == 0)
        fault_arm(FAULT_SYSCALL, (long)n);
}
