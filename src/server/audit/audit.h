/* audit.h - the audit record: a line of JSON per request, each with the hash of the one before.
 *
 *   {"seq":7,"time":"...",...,"prev":"<hash of line 6>","hash":"<SHA-256 of all before ,"hash":>"}
 *
 * Lines are appended to files in a directory, named by their first number; a file that is full is
 * closed, and a new one begun. The loop adds entries to a queue; a worker numbers, hashes and
 * writes them: no request waits for that. When entries cannot be written, they are kept, and once
 * too many wait, requests are refused: nothing is left out. What a killed server had not written,
 * at most the entries of its last moments, is lost. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/sha.h"
#include "net/pool.h"
#include "server/tenants/principal.h"

struct audit;
struct webhook;

enum {
    AUDIT_HASH_MAX = 2 * SHA256_BYTES + 1,
    AUDIT_ENTRY_MAX = 16 << 10, /* bytes of a line */
    AUDIT_QUEUE_MAX = 16 << 20, /* bytes that wait to be written */
    AUDIT_FILE_BYTES_MAX = 64 << 20,
    AUDIT_LIMIT_MAX = 1000,
};

struct audit_conf {
    struct loop *loop;
    struct pool *pool;
    const char *dir;         /* made if it is not there, 0700 */
    uint64_t file_bytes;     /* at which a new file begins */
    unsigned files_kept;     /* 0 = all */
    const char *syslog;      /* a socket such as /dev/log; "" = none */
    struct webhook *webhook; /* gets lines; NULL = none */
};

/* Reads the end of the newest file, and cuts a line that a killed server left half written. */
int audit_open(const struct audit_conf *conf, struct audit **ret, struct err *e);
/* Writes what waits. After the workers have ended; NULL is fine. */
void audit_close(struct audit *a);

struct audit_entry {
    int64_t time_us;
    const struct principal *by;
    struct str request_id, peer, method, route, target;
    int status; /* 0 = the client left before the answer */
    uint64_t duration_us;
};
/* Loop thread. NULL is fine. */
void audit_add(struct audit *a, const struct audit_entry *entry);
bool audit_is_full(const struct audit *a); /* no further request may be served; NULL is fine */

/* "success", "refused" (4xx), "failed". */
const char *audit_outcome(int status);

/* --- reading: any thread --- */

struct audit_query {
    uint64_t before, after; /* 0 = not given; with `after` the oldest come first */
    bool ascending;
    uint32_t limit;
    int64_t since_us, until_us;                                   /* 0 = not given */
    struct str principal, tenant, method, route, target, outcome; /* "" = any */
    bool raw; /* lines as they are; else a JSON page */
};
struct audit_head {
    uint64_t seq; /* 0 = none yet */
    char hash[AUDIT_HASH_MAX];
};
void audit_head_get(struct audit *a, struct audit_head *ret);
/* Appends the entries to `out`: lines, or values separated by commas. *ret_last: the number of the
 * last one, if there may be more; else 0. BLOCKS. */
int audit_read(struct audit *a, const struct audit_query *q, struct buf *out, uint64_t *ret_last,
               struct err *e);
