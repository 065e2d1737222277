#include "server/store/seal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/tree.h"
#include "test.h"

static const struct seal one = {"0123456789abcdef0123456789abcde"}, two = {"another key"};

static int closed_text(struct str text, struct buf *out)
{
    return seal_close(&one, STR("pool:p"), text, out);
}

TEST(seal, opens_what_it_closed)
{
    static char large[SEAL_TEXT_MAX];
    const struct str texts[] = {
        STR_INIT(""), STR_INIT("secret"), {large, sizeof(large)}
    };

    memset(large, 'x', sizeof(large));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        AUTO_BUF(sealed, 4 << 20);
        AUTO_BUF(text, 4 << 20);

        CHECK_EQ(closed_text(texts[i], &sealed), 0);
        CHECK(!texts[i].n || str_find_str(buf_str(&sealed), texts[i]) == sealed.n);
        CHECK_EQ(seal_open(&one, STR("pool:p"), buf_str(&sealed), &text), 0);
        CHECK(str_eq(buf_str(&text), texts[i]));
    }
}

TEST(seal, never_says_the_same_twice)
{
    AUTO_BUF(first, 1000);
    AUTO_BUF(second, 1000);

    CHECK_EQ(closed_text(STR("secret"), &first), 0);
    CHECK_EQ(closed_text(STR("secret"), &second), 0);
    CHECK(!str_eq(buf_str(&first), buf_str(&second)));
}

TEST(seal, refuses_another_key_another_label_and_any_changed_byte)
{
    AUTO_BUF(sealed, 1000);
    AUTO_BUF(text, 1000);

    CHECK_EQ(closed_text(STR("secret"), &sealed), 0);
    CHECK_EQ(seal_open(&two, STR("pool:p"), buf_str(&sealed), &text), -EBADMSG);
    CHECK_EQ(seal_open(&one, STR("pool:q"), buf_str(&sealed), &text), -EBADMSG);
    for (size_t i = 0; i < sealed.n; i++) {
        sealed.p[i] ^= 1;
        CHECK_EQ(seal_open(&one, STR("pool:p"), buf_str(&sealed), &text), -EBADMSG);
        CHECK_EQ(seal_open(&one, STR("pool:p"), str_make(sealed.p, i), &text), -EBADMSG);
        sealed.p[i] ^= 1;
    }
    CHECK_EQ(text.n, 0);
}

TEST(seal, keeps_its_key_in_a_file_of_its_own)
{
    char place[] = "/tmp/osb-seal-XXXXXX";
    struct seal first, again;
    struct err e = {0};
    auto_fd dir = -EBADF;
    struct stat st;

    CHECK(mkdtemp(place));
    dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_EQ(seal_load(place, &first, &e), 0);
    CHECK_EQ(seal_load(place, &again, &e), 0);
    CHECK_EQ(memcmp(&first, &again, sizeof(first)), 0);
    CHECK_EQ(fstatat(dir, SEAL_FILE, &st, 0), 0);
    CHECK_EQ(st.st_mode & 0777, 0600);
    CHECK_EQ(fchmodat(dir, SEAL_FILE, 0640, 0), 0);
    CHECK_EQ(seal_load(place, &again, &e), -EPERM);
    CHECK_EQ(io_write_file_atomic(dir, SEAL_FILE, STR("short"), 0600, NULL), 0);
    CHECK_EQ(seal_load(place, &again, &e), -EINVAL);
    CHECK_EQ(tree_remove(AT_FDCWD, place, NULL), 0);
}
