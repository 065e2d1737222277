/* audit_internal.h - shared by the files of audit.h. */
#pragma once

#include <pthread.h>

#include "server/audit/audit.h"

enum { AUDIT_NAME_MAX = 64, AUDIT_FILES_MAX = 100 * 1000 };

struct audit {
    struct audit_conf conf;
    int dir;
    struct buf waiting; /* entries without number and hash, a line each; loop only */
    struct buf writing; /* with the worker */
    struct buf lines;   /* what is to be appended: complete lines; worker */
    struct pool_job job;
    struct loop_timer retry;
    bool busy, failing;
    struct err why;

    /* The worker writes, readers read. */
    pthread_mutex_t mutex;
    struct audit_head head;
    uint64_t first; /* number of the first line of the open file */
    /* Only the worker. */
    struct audit_head next; /* head, once `lines` are written */
    int fd;                 /* of the open file; -EBADF = none */
    uint64_t bytes;         /* its size */
    int syslog;
};

/* The files of the record by their first number, ascending; free() it. */
int audit_list(int dir, uint64_t **ret, size_t *ret_count, struct err *e);
void audit_name(uint64_t first, char ret[AUDIT_NAME_MAX]);
/* Number and hash of a line; -EBADMSG when it is none. */
int audit_line_parse(struct str line, uint64_t *ret_seq, struct str *ret_hash);
