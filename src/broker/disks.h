/* disks.h - volumes of limited size: <state>/disks/<id> has the image of each.
 *
 * A caller has a directory with the volume's name in a directory of its own. The broker writes the
 * id into its extended attribute trusted.opensandbox.disk, which neither callers nor workloads can
 * set. So the kernel mounts only file systems that the broker made, and that no other process can
 * have written to but by files. */
#pragma once

#include "broker/broker.h"
#include "sandbox/disk.h"

/* Makes `name`, a single one, in the directory `dir` of the caller. Returns it, by O_PATH. */
int disks_make(const struct broker *b, uid_t caller, int dir, struct str name, uint64_t bytes,
               struct err *e);
/* Whether `dir` is the directory of such a volume. */
bool disks_id(int dir, char ret_id[DISK_VOLUME_ID_BYTES]);
/* A detached mount of a file or directory in the volume; follows no symbolic link (-ELOOP). */
int disks_open(const struct broker *b, const char *id, struct str path, struct err *e);
/* Whether `fd` is on the image of a volume of this broker. */
bool disks_has(const struct broker *b, int fd);
/* trash_put() of parent/name, and removes its image if it has one. */
int disks_erase(const struct broker *b, int parent, const char *name, struct err *e);
/* Finishes or undoes what a killed process began; call with the exclusive lock. Returns the number
 * of images that were removed. */
int disks_sweep(const struct broker *b);
