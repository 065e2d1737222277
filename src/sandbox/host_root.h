/* host_root.h - the root directory of sandboxes that use the host's own /usr. */
#pragma once

#include "base/err.h"

/* Fills an empty directory: links into /usr as the host has them, an /etc of our own with what
 * programs need and nothing secret, the start scripts of the code interpreter's image, and empty
 * /home, /root, /var, /run. Copies only what anyone may read. */
int host_root_make(int dir, struct err *e);
