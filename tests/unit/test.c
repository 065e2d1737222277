/* test.c - main() of every unit test program: runs each registered case in a child, prints TAP. */
#include "test.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEST_SECONDS_MAX = 240, EXIT_SKIPPED = 77 };

static struct test_case *test_first, **test_last = &test_first;

void test_register(struct test_case *t)
{
    *test_last = t;
    test_last = &t->next;
}

void test_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    printf("# %s:%d: ", file, line);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
    exit(1);
}

void test_skip(const char *reason)
{
    printf("# SKIP %s\n", reason);
    fflush(stdout);
    exit(EXIT_SKIPPED);
}

static const char *test_run(const struct test_case *t, int *ret_status)
{
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid < 0)
        return "fork failed";
    if (pid == 0) {
        alarm(TEST_SECONDS_MAX);
        t->run();
        exit(0);
    }
    if (waitpid(pid, ret_status, 0) < 0)
        return "waitpid failed";
    if (WIFSIGNALED(*ret_status))
        return WTERMSIG(*ret_status) == SIGALRM ? "timed out" : strsignal(WTERMSIG(*ret_status));
    return NULL;
}

/* With arguments, runs only the tests whose "module.name" contains one of them. */
static bool test_wanted(const struct test_case *t, int argc, char **argv)
{
    char full[256];

    snprintf(full, sizeof(full), "%s.%s", t->module, t->name);
    for (int i = 1; i < argc; i++)
        if (strstr(full, argv[i]))
            return true;
    return argc == 1;
}

/* A word that no test has, as of a test that was renamed, must not pass for a test that ran. */
static bool test_words_match(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *word[] = {argv[0], argv[i]};
        bool matches = false;

        for (struct test_case *t = test_first; t; t = t->next)
            matches = matches || test_wanted(t, 2, word);
        if (!matches) {
            fprintf(stderr, "%s: no test has '%s' in its name\n", argv[0], argv[i]);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    int count = 0, failed = 0;

    if (!test_words_match(argc, argv))
        return 2;

    for (struct test_case *t = test_first; t; t = t->next) {
        int status = 0;
        const char *died;
        bool ok, skipped;

        if (!test_wanted(t, argc, argv))
            continue;
        died = test_run(t, &status);
        skipped = !died && WEXITSTATUS(status) == EXIT_SKIPPED;
        ok = skipped || (!died && WEXITSTATUS(status) == 0);
        if (died)
            printf("# %s\n", died);
        printf("%sok %d - %s %s%s\n", ok ? "" : "not ", ++count, t->module, t->name,
               skipped ? " # SKIP" : "");
        failed += !ok;
    }
    printf("1..%d\n", count);
    return failed > 0;
}
