/* owner.h - the id of this installation. Its runtime marks what it makes with it, so that two
 * servers on one runtime leave each other's sandboxes alone. */
#pragma once

#include "base/err.h"
#include "base/id.h"

enum { OWNER_MAX = ID_UUID_MAX };
#define OWNER_FILE "owner"

/* Reads the file OWNER_FILE of the server's data directory, or makes it with a new random id.
 * -EINVAL when it has something else. Call it with the store open, so that no other server
 * makes one at the same time. BLOCKS. */
int owner_load(const char *dir, char ret[OWNER_MAX], struct err *e) MUST_USE;
