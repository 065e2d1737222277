#include "execd/log_file.h"

#include "folder.h"

TEST(log_file, begins_anew_and_keeps_some)
{
    AUTO_FOLDER(folder);
    struct log_file f;
    struct err e = {0};
    struct stat st;

    CHECK_EQ(setenv("EXECD_LOG_FILE", "log", 1), 0);
    CHECK_EQ(log_file_open(&f, 2, &e), 0);
    for (int round = 0; round < LOG_FILES_KEPT + 3; round++) {
        int fd = f.fd;

        CHECK_EQ(ftruncate(f.fd, LOG_FILE_BYTES_MAX), 0);
        CHECK_EQ(write(f.fd, "x", 1), 1);
        log_file_check(&f);
        CHECK_EQ(f.fd, fd);
        CHECK_EQ(write(f.fd, "new", 3), 3);
        CHECK_STR(file_read("log"), "new");
        log_file_check(&f);
    }
    CHECK_EQ(stat("log.1", &st), 0);
    CHECK_EQ(stat("log.3", &st), 0);
    CHECK_EQ(stat("log.4", &st), -1);
}

TEST(log_file, takes_the_first_of_a_list)
{
    AUTO_FOLDER(folder);
    struct log_file f;
    struct err e = {0};

    CHECK_EQ(log_file_open(&f, 7, &e), 0);
    CHECK(f.fd == 7 && !f.path[0]);
    CHECK_EQ(setenv("OPENSANDBOX_LOG_OUTPUT", "stdout,there", 1), 0);
    CHECK_EQ(log_file_open(&f, 7, &e), 0);
    CHECK(f.fd == 1 && !f.path[0]);
    CHECK_EQ(setenv("OPENSANDBOX_LOG_OUTPUT", " there ,stderr", 1), 0);
    CHECK_EQ(log_file_open(&f, 7, &e), 0);
    CHECK_STR(f.path, "there");
    CHECK_EQ(setenv("OPENSANDBOX_LOG_OUTPUT", "no/such/dir/f", 1), 0);
    CHECK_EQ(log_file_open(&f, 7, &e), -ENOENT);
}
