/* replay.c - main() of a fuzzer in ordinary builds: feeds it every file of the directory named on
 * the command line, then the file's every prefix when it is short. TAP on standard output. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

enum { INPUT_BYTES_MAX = 1 << 20, PREFIX_BYTES_MAX = 256 };

/* An exact-size heap copy, so that ASan sees a read past the end. */
static void replay_bytes(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);

    if (!copy)
        abort();
    memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static bool replay_file(int dirfd, const char *name)
{
    static uint8_t data[INPUT_BYTES_MAX];
    int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t r = -1;

    while (fd >= 0 && n < sizeof(data) && (r = read(fd, data + n, sizeof(data) - n)) > 0)
        n += (size_t)r;
    if (fd >= 0)
        close(fd);
    if (r < 0)
        return false;
    fprintf(stderr, "# %s\n", name); /* names the culprit when the next call dies */
    replay_bytes(data, n);
    for (size_t cut = 0; n <= PREFIX_BYTES_MAX && cut < n; cut++)
        replay_bytes(data, cut);
    return true;
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    int count = 0, unreadable = 0;

    if (!dir) {
        fprintf(stderr, "usage: %s CORPUS-DIRECTORY\n", argv[0]);
        return 2;
    }
    for (struct dirent *d; (d = readdir(dir));) {
        if (d->d_name[0] == '.')
            continue;
        unreadable += !replay_file(dirfd(dir), d->d_name);
        count++;
    }
    closedir(dir);
    printf("%sok 1 - replays %d inputs\n1..1\n", count && !unreadable ? "" : "not ", count);
    return !count || unreadable;
}
