/* static_probe.c - a program for a root file system without anything else: prints its arguments and
 * environment. Usage: static_probe echo WORD... | stdin | exit N | sleep SECONDS | env NAME |
 * cwd */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *word = argc > 2 ? argv[2] : "";
    char text[4096];
    int c;

    if (strcmp(what, "echo") == 0) {
        for (int i = 2; i < argc; i++)
            printf("%s%s", argv[i], i + 1 < argc ? " " : "\n");
    } else if (strcmp(what, "stdin") == 0) {
        while ((c = getchar()) != EOF)
            putchar(c);
    } else if (strcmp(what, "exit") == 0) {
        return (int)strtol(word, NULL, 10);
    } else if (strcmp(what, "sleep") == 0) {
        (void)sleep((unsigned)strtoul(word, NULL, 10));
    } else if (strcmp(what, "env") == 0) {
        const char *value = getenv(word);

        puts(value ? value : "");
    } else if (strcmp(what, "cwd") == 0) {
        puts(getcwd(text, sizeof(text)) ? text : "?");
    } else {
        fprintf(stderr, "static_probe: what is '%s'?\n", what);
        return 2;
    }
    return 0;
}
