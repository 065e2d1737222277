#include "taskexec/task.h"

#include "folder.h"

TEST(task, names_stay_in_their_directory)
{
    static const char *const bad[] = {"", ".", "..", ".hidden", "a/b", "../x", "a\nb"};

    CHECK(task_name_is_valid(STR("box-0")));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!task_name_is_valid(str_of(bad[i])));
}

TEST(task, store_forgets_directories_that_are_no_tasks)
{
    __attribute__((cleanup(folder_done))) struct folder f = folder_make();
    struct task_store s;
    struct err e = {0};

    CHECK_EQ(mkdir("begun", 0755), 0);
    CHECK_EQ(task_store_open(&s, f.path, NULL, &e), 0);
    CHECK_EQ(s.count, 0);
    CHECK_EQ(access("begun", F_OK), -1);
    task_store_close(&s);
}
