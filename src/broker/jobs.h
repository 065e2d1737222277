/* jobs.h - processes for long work beside a worker: snapshots, merges, unpacking.
 *
 * A job ends with its worker, when its caller closes the socket, and at its deadline. The worker
 * notices the end of each and undoes what a job left frozen that was killed. */
#pragma once

#include "broker/broker.h"

struct job {
    const char *name; /* of the process */
    const int *fds;   /* descriptors that it needs beside the standard ones */
    size_t fd_count;
    bool needs_host;     /* also those of struct host */
    const char *freezes; /* id of the sandbox that it may freeze; NULL = none */
    bool counts;         /* a volume: has places of its own */
    /* Runs in the process, which ends when it returns, with its result as the exit status. `client`
     * is the caller's socket. */
    int (*run)(void *user, int client);
    void *user;
};

/* Notes the descriptors of struct host, which the worker inherited; all others are closed in jobs.
 * Call it before the worker opens any; `listener` is not one of them. Returns a descriptor that is
 * readable when jobs_tend() has something to do. */
int jobs_open(struct broker *b, int listener, struct err *e);
/* Starts a job and returns the caller's end of its socket. -EBUSY when all places
 * are taken: JOBS_MAX, or JOBS_COUNTS_MAX for one that counts. */
int job_start(struct broker *b, const struct job *j, struct err *e);
/* Forgets the jobs that have ended, and thaws what they left frozen. */
void jobs_tend(struct broker *b);
