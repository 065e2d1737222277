/* snapshot.h - what a sandbox wrote, as a layer others can stand on. */
#pragma once

#include "base/err.h"
#include <stdbool.h>

/* Copies the writable layer in `layer`, as disk_open_layer has it (with `usr`, that of /usr in its
 * place), into the empty directory `to`: files, links, fifos, whiteouts and overlayfs' marks, modes
 * and times; ids as they are inside, where `uid_first` outside is 0. Sparse files stay sparse; hard
 * links become copies. The sandbox must not be writing. */
int snapshot_copy(int layer, uint32_t uid_first, bool usr, int to, struct err *e);
