/* privileges.h - what the server needs root for, once: the broker, its directories; and how it
 * gets rid of it. */
#pragma once

#include "base/proc.h"
#include "server/config/config.h"

/* Directories opened while that was possible. Old sets are kept: workers may still use them. */
struct roots {
    struct embedded_root *images;     /* as config->images */
    struct embedded_path *host_paths; /* as storage.allowed_host_paths */
    size_t host_path_count;
    const struct config *config;
    struct roots *next; /* older */
};

/* As root it makes host paths that are missing. Those that cannot be opened are warned about and
 * stay shut. Of `older` sets, which it keeps, it takes images that only root can open. */
struct roots *roots_open(const struct config *config, struct roots *older);
/* Warns of directories that a broker which was started as of the oldest set does not know. */
void roots_warn_new(const struct roots *now);

/* Makes config->dir, for the account the server will run as. -EPERM when it is there and somebody
 * else's, or when, as root, a link leads there that others than root can have put in its place. */
int data_dir_prepare(const struct config *config, struct err *e);

/* Starts a broker that ends with us and may use `roots`, if their configuration wants one. 1 when
 * it did, with the process in *ret_broker and *ret_tie to be kept open; 0 when none is to be
 * started. */
int broker_start(const struct roots *roots, struct proc *ret_broker, int *ret_tie, struct err *e);

/* As root: becomes the configured account, for good. Otherwise nothing. */
int privileges_drop(const struct config *config, struct err *e);
