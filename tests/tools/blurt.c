/* blurt.c - blurt SEED OUT ERR END: prints random output, and records what it printed.
 *
 * Writes pieces of random size, alphabet and timing to stdout and stderr, and everything that was
 * accepted also to the files OUT and ERR (which may be the same). Then it ends as END says: an exit
 * status, "kill" for SIGKILL, "hang" for never. The same seed prints the same output. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

enum {
    PIECES_MAX = 8,
    PIECE_BYTES_MAX = 200000,
    SLEEP_SHARE = 5, /* one piece in five is followed by a pause */
    SLEEP_MS_MAX = 120,
    NS_PER_MS = 1000000,
    FAILED = 99,
};

static uint64_t chance(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Contents of pieces. Many short lines cause many events, so these pieces are smaller. */
static const struct alphabet {
    const char *text;
    size_t bytes_max;
} alphabets[] = {
    {"abc \n",                                                                   3000           },
    {"\r\n",                                                                     500            },
    {"\xe2\x82\xac\xc3\xa9\xf0\x9f\x98\x80\n",                                   3000           },
    {"x",                                                                        PIECE_BYTES_MAX},
    {"0123456789012345678901234567890123456789012345678901234567890123456789\n", PIECE_BYTES_MAX},
    {NULL,                                                                       50000          }, /* any byte */
};

static size_t fill(char *piece, uint64_t *state)
{
    static const size_t sizes[] = {1, 7, 100, 4096, 5000, 70000, PIECE_BYTES_MAX};
    const struct alphabet *a = &alphabets[chance(state) % ARRAY_LEN(alphabets)];
    size_t n = min_size(sizes[chance(state) % ARRAY_LEN(sizes)], a->bytes_max);
    size_t letters = a->text ? strlen(a->text) : 0;

    for (size_t i = 0; i < n; i++)
        piece[i] = letters > 20 ? a->text[i % letters]
                   : letters    ? a->text[chance(state) % letters]
                                : (char)chance(state);
    return n;
}

static void put(int to, int file, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = write(to, p, n);

        if (done <= 0 || write(file, p, (size_t)done) != done)
            exit(FAILED);
        p += done;
        n -= (size_t)done;
    }
}

static void end_as(const char *how)
{
    if (strcmp(how, "kill") == 0)
        (void)raise(SIGKILL);
    while (strcmp(how, "hang") == 0)
        (void)pause();
    _exit((int)strtol(how, NULL, 10));
}

int main(int argc, char **argv)
{
    static char piece[PIECE_BYTES_MAX];
    uint64_t state = argc == 5 ? strtoull(argv[1], NULL, 10) : 0;
    int files[2];

    for (int i = 0; argc == 5 && i < 2; i++)
        files[i] = open(argv[2 + i], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (argc != 5 || files[0] < 0 || files[1] < 0)
        return FAILED;
    for (uint64_t left = chance(&state) % PIECES_MAX; left > 0; left--) {
        int which = chance(&state) % 3 == 0;
        struct timespec pause = {0, (long)(chance(&state) % SLEEP_MS_MAX) * NS_PER_MS};

        put(which + 1, files[which], piece, fill(piece, &state));
        if (chance(&state) % SLEEP_SHARE == 0)
            (void)nanosleep(&pause, NULL);
    }
    end_as(argv[4]);
}
