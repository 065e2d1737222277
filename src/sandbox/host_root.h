/* host_root.h - the root directory of sandboxes that use the host's own /usr. */
#pragma once

#include "base/err.h"

enum { HOST_ROOT_NAME_BYTES = 32 };

/* A directory name that changes whenever host_root_make() makes something else: a root of an older
 * version is not reused, and stays for the sandboxes that use it. */
void host_root_name(char out[HOST_ROOT_NAME_BYTES]);

/* Fills an empty directory: links into /usr like those of the host, an /etc with what programs need
 * and no secrets, the start scripts of the code interpreter's image, empty /home, /root, /var,
 * /run, and a /usr with names that the host may lack, such as /usr/bin/python, as a layer below the
 * host's own. Copies only files that every user may read. */
int host_root_make(int dir, struct err *e);
