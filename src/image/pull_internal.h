/* pull_internal.h - what the files of a pull share. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "image/problem.h"
#include "image/pull.h"

struct pull_job;
struct pull_layer;

/* A step that blocks, on a worker. Its owner is busy until `done` came. */
struct pull_work {
    struct pool_job job;
    struct pull_job *pull;
    struct loop_timer again; /* while the pool's queue is full */
    struct loop_task refusal;
    uint32_t refused;
    unsigned flags;
    int (*run)(struct pull_work *w); /* on a worker: 0 or -errno, with w->err */
    void (*done)(struct pull_work *w, int r);
    int result;
    struct err err;
};

enum layer_state {
    LAYER_WAITING,
    LAYER_OPENING,     /* is it here? else open its part and hash that */
    LAYER_DOWNLOADING, /* bytes come, and are written */
    LAYER_CHECKING,    /* all is written: digest, commit */
    LAYER_UNPACKING,
    LAYER_STOPPING, /* the pull has failed: its part is put aside */
    LAYER_DONE,
};

struct pull_layer {
    struct pull_job *job;
    const struct image_descriptor *descriptor;
    const struct image_digest *diff_id;
    size_t number; /* from 1 */
    enum layer_state state;
    struct list link; /* among the active layers of the puller */
    struct image_fetch *fetch;
    struct pull_work work;
    struct image_unpack unpack;
    int fd;
    bool present;     /* the blob was here */
    bool tried_again; /* its bytes were wrong once */
    bool skip_mirrors;
    bool writing, ended; /* a write is under way; the registry sent all */
    bool restart;        /* what is in `fill` begins the blob anew */
    bool flush_restarts;
    bool write_failed;
    bool stopped;           /* the registry waits for us */
    struct buf fill, flush; /* received; being written */
    struct image_hash hash; /* of what is in the part */
    uint64_t received;
};

struct pull_job {
    struct image_puller *puller;
    struct list link;    /* among the puller's */
    struct list waiters; /* image_pull */
    struct arena arena;  /* texts of the spec, documents */
    struct image_reference reference;
    struct image_platform platform;
    struct image_auth auth;
    enum image_pull_policy policy;
    char name[IMAGE_REFERENCE_TEXT_MAX];
    char key[SHA256_BYTES];
    struct buf credentials;
    void *session;
    struct pull_work work;
    struct image_fetch *fetch;
    struct buf document; /* received */
    struct str document_type;
    char media_type[256], content_digest[IMAGE_DIGEST_TEXT_MAX];
    struct image_digest expected; /* of the next document; "" = any */
    uint64_t expected_bytes;      /* 0 = any */
    unsigned indexes;             /* gone through */
    struct image_manifest manifest;
    struct image_config config;
    bool found, has_config;
    struct pull_layer *layers;
    size_t layers_count, layers_done, layers_active;
    uint64_t bytes_total, bytes_done;
    struct image_pulled result;
    struct loop_timer deadline, progress;
    bool progress_due;
    unsigned busy; /* works and unpacks under way */
    bool failed, closing;
    struct err err;
};

struct image_puller {
    struct image_puller_conf conf;
    struct list jobs, layers;
    size_t job_count;
    bool stopping;
};

/* pull.c */
void pull_work_start(struct pull_work *w, int (*run)(struct pull_work *),
                     void (*done)(struct pull_work *, int), unsigned flags);
/* Fails the job for good; the first reason counts. */
void pull_fail(struct pull_job *job, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Something ended: goes on with layers, with the end of the job, or with its clearing up. */
void pull_go_on(struct pull_job *job);
void pull_tell(struct pull_job *job); /* progress, soon */
void pull_begin_layers(struct pull_job *job);
/* Nothing of the job is under way any more: ends its session, tells its callers, frees it. */
void pull_close(struct pull_job *job);
static inline const struct image_blobs_ops *pull_blobs(const struct pull_job *job)
{
    return job->puller->conf.blobs.ops;
}

/* pull_documents.c - up to pull_begin_layers, or pull_close. */
void pull_documents_start(struct pull_job *job);

/* pull_layer.c */
void pull_layer_start(struct pull_layer *layer);
void pull_layer_stop(struct pull_layer *layer); /* the job has failed */
