/* noop.c - the workload of the create benchmark: writes one byte; with an argument, then waits. */
#include <unistd.h>

int main(int argc, char **argv __attribute__((unused)))
{
    if (write(STDOUT_FILENO, "x", 1) != 1)
        return 1;
    if (argc > 1)
        for (;;)
            (void)pause();
    return 0;
}
