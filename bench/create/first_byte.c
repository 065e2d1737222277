/* first_byte.c - times a command from its start to the first byte it writes.
 *
 * usage: first_byte COUNT ARGV...
 * "%n" in an argument is the number of the round. Prints the rounds as a JSON array of
 * milliseconds. A round that writes nothing ends the program with status 1. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"

enum { ROUNDS_MAX = 100000, ARGS_MAX = 64, ARG_BYTES_MAX = 512 };

/* The arguments with the number of the round in them. */
static void fill_argv(char *const *from, uint64_t round, char room[ARGS_MAX][ARG_BYTES_MAX],
                      char **argv)
{
    size_t i = 0;

    for (; from[i] && i < ARGS_MAX - 1; i++) {
        const char *mark = strstr(from[i], "%n");

        argv[i] = from[i];
        if (!mark)
            continue;
        (void)snprintf(room[i], ARG_BYTES_MAX, "%.*s%llu%s", (int)(mark - from[i]), from[i],
                       (unsigned long long)round, mark + 2);
        argv[i] = room[i];
    }
    argv[i] = NULL;
}

/* Nanoseconds to the first byte; 0 when none came. The command is reaped in any case. */
static uint64_t run_once(char **argv)
{
    posix_spawn_file_actions_t actions;
    int pair[2], status;
    uint64_t began, took = 0;
    char byte;
    pid_t pid;

    if (pipe2(pair, O_CLOEXEC) < 0 || posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO) != 0)
        abort();
    began = time_mono_ns();
    if (!argv[0] || posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0) {
        perror("first_byte");
        exit(1);
    }
    fd_close(pair[1]);
    if (read(pair[0], &byte, 1) == 1)
        took = time_mono_ns() - began;
    fd_close(pair[0]);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)waitpid(pid, &status, 0);
    return took;
}

int main(int argc, char **argv)
{
    static char room[ARGS_MAX][ARG_BYTES_MAX];
    uint64_t count;

    if (argc < 3 || argc > ARGS_MAX ||
        str_to_u64_range(str_of(argv[1]), 1, ROUNDS_MAX, &count) < 0) {
        fprintf(stderr, "usage: first_byte COUNT ARGV...\n");
        return 2;
    }
    for (uint64_t i = 0; i < count; i++) {
        char *filled[ARGS_MAX];
        uint64_t ns;

        fill_argv(argv + 2, i, room, filled);
        ns = run_once(filled);
        if (ns == 0)
            return 1;
        printf("%s%.4f", i ? ", " : "[", (double)ns / 1e6);
    }
    puts("]");
    return 0;
}
