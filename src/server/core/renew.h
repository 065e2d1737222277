/* renew.h - when an access extends a sandbox's life (contract 8). Pure: the caller knows the time
 * and stores the result. */
#pragma once

#include "api/state.h"

/* Of one sandbox at the moment it is used. Times are wall-clock microseconds. */
struct renew_facts {
    int64_t now_us;
    int64_t expires_us; /* 0 = never */
    int64_t renewed_us; /* by access, last; 0 = never */
    uint32_t extend_s;  /* asked for at creation; 0 = not at all */
    uint32_t min_interval_s;
    enum sandbox_state state;
};

/* The new expiry, later than the old one; 0 when nothing is to be done. An expired sandbox stays
 * expired. */
int64_t renew_due(const struct renew_facts *f);
