#include "execd/tree/sparse.h"

#include "folder.h"

enum { BLOCK = 4096 };

/* Writes it in pieces of this size. */
static int write_pieces(const char *name, struct str data, size_t piece)
{
    auto_fd fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct sparse s = {0};
    int r = 0;

    while (r == 0 && data.n > 0) {
        size_t n = min_size(piece, data.n);

        r = sparse_write(&s, fd, str_make(data.p, n));
        data = str_skip(data, n);
    }
    return r < 0 ? r : sparse_end(&s, fd);
}

TEST(sparse, keeps_every_byte_whatever_the_pieces)
{
    static char data[10 * BLOCK + 123], got[sizeof(data) + 1];
    static const size_t pieces[] = {1, 100, BLOCK - 1, BLOCK, BLOCK + 1, sizeof(data)};
    AUTO_FOLDER(folder);

    data[3 * BLOCK] = 1;
    data[3 * BLOCK + BLOCK / 2] = 2;
    data[7 * BLOCK - 1] = 3;
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        CHECK_EQ(write_pieces("f", str_make(data, sizeof(data)), pieces[i]), 0);
        auto_fd fd = open("f", O_RDONLY | O_CLOEXEC);
        CHECK_EQ(read(fd, got, sizeof(got)), sizeof(data));
        CHECK_EQ(memcmp(got, data, sizeof(data)), 0);
    }
}

TEST(sparse, leaves_holes)
{
    static char data[1 << 20];
    AUTO_FOLDER(folder);
    struct stat st;

    data[sizeof(data) / 2] = 1;
    CHECK_EQ(write_pieces("f", str_make(data, sizeof(data)), 64 << 10), 0);
    CHECK_EQ(stat("f", &st), 0);
    CHECK_EQ(st.st_size, sizeof(data));
    CHECK((uint64_t)st.st_blocks * 512 <= 64 << 10);
}
