/* main.c - execd, the daemon inside a sandbox. A single static program: it runs in any image, also
 * in one without a C library. So far it can say what it is. */
#include <stdio.h>
#include <string.h>

#include "base/defs.h"
#include "version.h"

enum { EXIT_USAGE = 2 };

static const char execd_help[] = "usage: execd --version | --help\n"
                                 "The daemon that runs commands inside a sandbox.\n"
                                 "\n"
                                 "  --version  print the version and exit\n"
                                 "  --help     print this text and exit\n";

static const struct {
    const char *option, *text;
} execd_answers[] = {
    {"--help",    execd_help                       },
    {"--version", "execd " OPENSANDBOX_VERSION "\n"},
};

/* Prints and makes sure it arrived: `execd --version >/dev/full` must not succeed. */
static int execd_say(const char *text)
{
    return fputs(text, stdout) == EOF || fflush(stdout) == EOF ? 1 : 0;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < ARRAY_LEN(execd_answers); i++)
        if (strcmp(argv[1], execd_answers[i].option) == 0)
            return execd_say(execd_answers[i].text);
    (void)fprintf(
        stderr, "execd: unknown or missing option; this version serves nothing yet, see --help\n");
    return EXIT_USAGE;
}
