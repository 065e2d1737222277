/* file_view_process.h - the part of file_view.h that runs in the new process. */
#pragma once

#include "execd/files/file_view.h"

struct file_view_task {
    const struct file_view_plan *plan;
    pid_t client;          /* the only process that may connect */
    int listener, channel; /* when the channel closes, the process ends within a second */
};

/* For proc_spec.prepare with a struct file_view_task: returns only if a step fails. */
int file_view_become(void *task, struct proc_step *ret_step);
