/* renew.h - when an access extends a sandbox's life (contract 8). Pure: the caller passes the time
 * and stores the result. */
#pragma once

#include "api/state.h"

/* One sandbox at the moment of an access. Times are wall-clock microseconds. */
struct renew_facts {
    int64_t now_us;
    int64_t expires_us; /* 0 = never */
    int64_t renewed_us; /* last renewal by an access; 0 = never */
    uint32_t extend_s;  /* requested at creation; 0 = no renewal */
    uint32_t min_interval_s;
    enum sandbox_state state;
};

/* The new expiry, later than the old one; 0 when it does not change. An expired sandbox stays
 * expired. */
int64_t renew_due(const struct renew_facts *f);
