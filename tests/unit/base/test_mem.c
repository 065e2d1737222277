#include "base/mem.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "test.h"

TEST(mem, gives_zeroed_memory_also_for_nothing)
{
    volatile size_t nothing = 0; /* a compiler that sees it has an opinion */
    auto_free int *numbers = mem_new_array(int, 100);
    auto_free char *none = mem_alloc(nothing);
    auto_free char *empty_array = mem_new_array(char, 0);

    for (int i = 0; i < 100; i++)
        CHECK_EQ(numbers[i], 0);
    CHECK(none && empty_array);
}

static int status_of_child(void (*run)(void))
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        close(STDERR_FILENO);
        run();
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

static void ask_for_an_overflowing_array(void)
{
    volatile size_t n = SIZE_MAX / 2;

    free(mem_zalloc_array(n, 16));
}

TEST(mem, ends_the_process_rather_than_answer_null)
{
    int status = status_of_child(ask_for_an_overflowing_array);

    /* A sanitizer refuses such a size by itself, with an exit status. */
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) != 0);
}

TEST(mem, keeps_the_old_block_when_it_cannot_grow)
{
    char *p = mem_try_realloc(NULL, 4), *q;

    CHECK(p);
    memcpy(p, "abc", 4);
    fault_arm(FAULT_ALLOC, 1);
    q = mem_try_realloc(p, 400);
    CHECK(!q);
    CHECK_STR(p, "abc");
    q = mem_try_realloc(p, 400);
    CHECK(q);
    CHECK_STR(q, "abc");
    q = mem_try_realloc(q, 0); /* shrinks, frees nothing */
    CHECK(q);
    free(q);
}

TEST(mem, moves_pointers_out_of_their_variables)
{
    char *a = mem_strdup("text");
    auto_free char *b = take_ptr(&a);

    CHECK(!a);
    CHECK_STR(b, "text");
}

TEST(mem, wipes_secrets)
{
    char secret[] = "hunter2";

    mem_wipe(secret, sizeof(secret));
    for (size_t i = 0; i < sizeof(secret); i++)
        CHECK_EQ(secret[i], 0);
    mem_wipe(NULL, 0);
}
