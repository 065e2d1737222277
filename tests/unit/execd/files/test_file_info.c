#include "execd/files/file_info.h"

#include "test.h"

static void check_info(mode_t mode, struct timespec at, const char *wanted)
{
    struct file_facts f = {
        .mode = mode, .uid = 0, .gid = 4294967, .size = 5, .modified = at, .changed = {0, 0}
    };
    struct user_cache users = {.users = {{0, true, "root"}},
                               .groups = {{4294967, true, "4294967"}}};
    AUTO_BUF(out, 4096);
    struct json_writer w;

    json_write_begin(&w, &out);
    file_info_write(&w, STR("/a\xff"), &f, &users);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK_STR(out.p, wanted);
}

#define INFO(type, time, mode)                                                                     \
    "{\"path\":\"/a\\ufffd\",\"type\":\"" type "\",\"size\":5,\"modified_at\":\"" time             \
    "\",\"created_at\":\"1970-01-01T00:00:00Z\",\"owner\":\"root\",\"group\":\"4294967\","         \
    "\"mode\":" mode "}"

TEST(file_info, is_one_json_object)
{
    check_info(S_IFREG | 0644, (struct timespec){1700000000, 120000000},
               INFO("file", "2023-11-14T22:13:20.12Z", "644"));
    check_info(S_IFDIR | 01777, (struct timespec){1700000000, 1},
               INFO("directory", "2023-11-14T22:13:20.000000001Z", "777"));
    check_info(S_IFLNK | 0777, (struct timespec){-1, 999999999},
               INFO("symlink", "1969-12-31T23:59:59.999999999Z", "777"));
    check_info(S_IFIFO, (struct timespec){0, 0}, INFO("other", "1970-01-01T00:00:00Z", "0"));
}
