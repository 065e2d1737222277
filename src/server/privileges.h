/* privileges.h - what the server does as root at start-up (directories, broker), and how it then
 * drops root. */
#pragma once

#include "base/proc.h"
#include "server/config/config.h"

/* Directories opened before root was dropped, or at a reload. Older sets are kept for workers. */
struct roots {
    struct embedded_root *images;     /* as config->images */
    struct embedded_path *host_paths; /* as storage.allowed_host_paths */
    size_t host_path_count;
    const struct config *config;
    struct roots *next; /* the set before this one */
};

/* Opens the directories of `config`; as root it creates missing host paths. Warns of those that it
 * cannot open. Takes images that only root can open from `older` sets, and keeps these. */
struct roots *roots_open(const struct config *config, struct roots *older);
/* Logs a warning for each directory unknown to a broker that was started with the oldest set. */
void roots_warn_new(const struct roots *now);

/* Creates config->dir for the account the server will run as. -EPERM when it has another owner, or
 * when, as root, the path has a symbolic link that another user can have put there. */
int data_dir_prepare(const struct config *config, struct err *e);

/* Starts a broker that may use `roots` and ends when this process does, if the configuration wants
 * one. 1: started; *ret_broker is the process, and *ret_tie must stay open. 0: none is wanted. */
int broker_start(const struct roots *roots, struct proc *ret_broker, int *ret_tie, struct err *e);

/* As root: switches to the configured account for good. Otherwise does nothing. */
int privileges_drop(const struct config *config, struct err *e);
