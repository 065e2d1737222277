/* host_root.h - the root directory of sandboxes that use the host's own /usr. */
#pragma once

#include "base/err.h"

enum { HOST_ROOT_NAME_BYTES = 32 };

/* A directory's name that is another whenever host_root_make() makes something else: one that an
 * older version has made is not taken for ours, and stays for the sandboxes that stand on it. */
void host_root_name(char out[HOST_ROOT_NAME_BYTES]);

/* Fills an empty directory: links into /usr as the host has them, an /etc of our own with what
 * programs need and nothing secret, the start scripts of the code interpreter's image, empty /home,
 * /root, /var, /run, and a /usr with names that the host may lack, such as /usr/bin/python, to be
 * mounted below the host's own. Copies only what anyone may read. */
int host_root_make(int dir, struct err *e);
