/* kin.h - finds the processes of a session (setsid) in /proc by session id, whatever their process
 * group and current parent. Processes that called setsid themselves are not included.
 *
 * Reads one small file per process of the sandbox, ~10 us each. The loop thread may do so for rare
 * events such as the end of a command. */
#pragma once

#include <sys/types.h>

#include "base/str.h"

/* The current time in the unit of /proc: clock ticks since boot. */
uint64_t kin_now_ticks(void);

/* Signals every process of session `sid` that started at `since_ticks` or later, except the leader
 * and `but` (0 = none). Returns how many there were; 0 also when /proc cannot be read. */
size_t kin_signal(pid_t sid, pid_t but, uint64_t since_ticks, int signo);

/* Sends SIGKILL until no process is left, including those forked meanwhile; gives up after a number
 * of rounds. */
void kin_kill(pid_t sid, uint64_t since_ticks);

/* The child of a process that has at most one; 0 = none. */
pid_t kin_child(pid_t parent);

struct kin_stat {
    pid_t parent, sid;
    uint64_t start_ticks;
    char state;      /* 'R' = running or runnable */
    uint64_t ran_ms; /* CPU time used */
};

/* Parses the text of /proc/PID/stat. False when it is malformed or describes a zombie. */
bool kin_parse(struct str stat, struct kin_stat *ret);
bool kin_look(pid_t pid, struct kin_stat *ret); /* the same for a live process */
