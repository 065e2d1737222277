/* kin.h - the processes that descend from a session leader, found in /proc by the number of their
 * session: whatever process group they are in and whoever is their parent by now. Those that made
 * a session of their own (setsid) are not among them.
 *
 * Reads a small file per process of the sandbox, ~10 us each. Loop thread is fine, for what happens
 * as seldom as an end. */
#pragma once

#include <sys/types.h>

#include "base/str.h"

/* Now, as /proc counts: clock ticks since boot. */
uint64_t kin_now_ticks(void);

/* Signals every process of session `sid` but the leader that started at `since_ticks` or later.
 * Returns how many there were; 0 also where /proc cannot be read. */
size_t kin_signal(pid_t sid, uint64_t since_ticks, int signo);

/* SIGKILL until nobody is left, also of those that fork meanwhile, within reason. */
void kin_kill(pid_t sid, uint64_t since_ticks);

/* Session and start of the process that a text of /proc/PID/stat is about. False when the text is
 * not of that form, or about a zombie. */
bool kin_parse(struct str stat, pid_t *ret_sid, uint64_t *ret_ticks);
