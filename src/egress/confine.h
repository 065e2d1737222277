/* confine.h - what the process gives up: it parses messages of sandboxes under the account of the
 * server, and a mistake there must not reach what that account may.
 *
 * Files, before it has threads, by Landlock: from then on it opens the directories of sandboxes,
 * and reads authorities, libraries and a few files of the system. The key, store and configuration
 * of the server cannot be opened, nor can anybody's home, and no process outside can get a signal.
 *
 * System calls, once it serves, by a seccomp filter: it can make no unix socket, so that it cannot
 * connect to the broker or to others; start no program; trace no process, and take no descriptor or
 * memory of one. Its connection to the broker has the role of egress, for good. */
#pragma once

#include "base/err.h"

struct confine_files {
    int sandboxes;     /* directory to read and write below */
    const char *trust; /* files and directories that may be read, too; NULL = none */
    const char *trust_dir;
};
/* For this thread and those it starts. Cannot be undone. 1 when the kernel has no Landlock: nothing
 * was given up. */
int egress_confine_files(const struct confine_files *files, struct err *e);

/* For this process, all threads; they exist already. Cannot be undone. */
int egress_confine(struct err *e);
