/* filter.h - the system calls that unpacking needs; any other ends the process. */
#pragma once

/* For all threads of the process; needs no_new_privs. 0 or -errno. */
int filter_install(void);
