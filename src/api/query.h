/* query.h - query strings of the lifecycle API, and the port in its paths.
 *
 * Unknown parameters are ignored; of a repeated one the last counts, except `state`. Numbers are
 * decimal digits. On failure returns -errno and fills `f` with the answer. */
#pragma once

#include "api/fail.h"
#include "api/state.h"
#include "base/arena.h"
#include "base/json_bind.h"

enum { API_PAGE_SIZE_DEFAULT = 20, API_PAGE_SIZE_MAX = 200 };

struct api_list_query {
    unsigned states; /* STATE_BITs; 0 = any, but with unknown_state nothing matches */
    bool unknown_state;
    struct json_pair *metadata; /* all must match; a repeated key has its last value */
    size_t metadata_count;
    uint32_t page, page_size;
};
int api_list_query_parse(struct arena *a, struct str query, struct api_list_query *ret,
                         struct api_fail *f);

struct api_endpoint_query {
    bool by_host; /* an address {port}-{id}.DOMAIN */
    bool use_server_proxy, signed_route;
    uint64_t expires_s; /* for signed_route */
};
int api_endpoint_query_parse(struct arena *a, struct str query, struct api_endpoint_query *ret,
                             struct api_fail *f);

/* 1..65535; 400 SANDBOX::INVALID_PARAMETER when it is not a number, DOCKER::INVALID_PORT when out
 * of range. */
int api_port_parse(struct str text, uint16_t *ret_port, struct api_fail *f);

struct api_snapshot_query {
    struct str sandbox_id; /* "" = any */
    struct str name;       /* the whole name; p == NULL: any */
    unsigned states; /* STATE_BITs of enum snapshot_state; 0 = any, as in a list of sandboxes */
    bool unknown_state;
    uint32_t page, page_size;
};
int api_snapshot_query_parse(struct arena *a, struct str query, struct api_snapshot_query *ret,
                             struct api_fail *f);

struct api_diag_query {
    struct str scope;     /* p == NULL: the plain text form */
    uint32_t tail, limit; /* number of log lines, of events */
    int64_t since_s;      /* 0 = from the start */
};
enum api_diag_kind { API_DIAG_LOGS, API_DIAG_EVENTS, API_DIAG_INSPECT, API_DIAG_SUMMARY };
int api_diag_query_parse(struct arena *a, struct str query, enum api_diag_kind kind,
                         struct api_diag_query *ret, struct api_fail *f);
