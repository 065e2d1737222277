/* commit_job.h - the Jobs that save the containers of a pod, and wake those that a killed Job left
 * stopped. */
#pragma once

#include "operator/decide.h"

struct commit_job {
    const struct meta *snapshot;
    const struct pod *source;  /* its name, uid and node */
    const struct json *images; /* [{"containerName","imageUri"}] */
    const struct settings *settings;
};

struct json *commit_job_tree(const struct commit_job *job, struct arena *a);
struct json *unpause_job_tree(const struct commit_job *job, struct arena *a);
