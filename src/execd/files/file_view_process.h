/* file_view_process.h - the inside of file_view.h: what its process does. */
#pragma once

#include "execd/files/file_view.h"

struct file_view_task {
    const struct file_view_plan *plan;
    pid_t client;          /* who may ask */
    int listener, channel; /* the end of the channel is that of the process, in a second at most */
};

/* For proc_spec.prepare, with the task: returns only when a step fails. */
int file_view_become(void *task, struct proc_step *ret_step);
