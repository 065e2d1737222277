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

/* Signals every process of session `sid` but the leader and `but` (0 = nobody) that started at
 * `since_ticks` or later. Returns how many there were; 0 also where /proc cannot be read. */
size_t kin_signal(pid_t sid, pid_t but, uint64_t since_ticks, int signo);

/* SIGKILL until nobody is left, also of those that fork meanwhile, within reason. */
void kin_kill(pid_t sid, uint64_t since_ticks);

/* A child of a process that has one at most; 0 = none. */
pid_t kin_child(pid_t parent);

struct kin_stat {
    pid_t parent, sid;
    uint64_t start_ticks;
    char state;      /* 'R' runs, or would if it were let */
    uint64_t ran_ms; /* time of a CPU that it has had */
};

/* Reads a text of /proc/PID/stat. False when it is not of that form, or about a zombie. */
bool kin_parse(struct str stat, struct kin_stat *ret);
bool kin_look(pid_t pid, struct kin_stat *ret); /* the same, of a process */
