/* folder.h - a temporary working directory for one test, removed when its variable goes. */
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/tree.h"
#include "test.h"

struct folder {
    char path[sizeof("/tmp/test-execd-XXXXXX")];
};

static inline void folder_done(struct folder *f)
{
    CHECK_EQ(chdir("/"), 0);
    CHECK_EQ(tree_remove(AT_FDCWD, f->path, NULL), 0);
}

static inline struct folder folder_make(void)
{
    struct folder f = {"/tmp/test-execd-XXXXXX"};

    CHECK(mkdtemp(f.path));
    CHECK_EQ(chdir(f.path), 0);
    return f;
}

/* Makes a folder and goes there. */
#define AUTO_FOLDER(name)                                                                          \
    __attribute__((cleanup(folder_done), unused)) struct folder name = folder_make()

static inline void file_write(const char *name, const char *text)
{
    auto_fd fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
}

/* The content of a small file; static. */
static inline const char *file_read(const char *name)
{
    static char text[4096];
    auto_fd fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    CHECK(n >= 0);
    text[n] = '\0';
    return text;
}
