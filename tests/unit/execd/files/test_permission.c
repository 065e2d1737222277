#include "execd/files/permission.h"

#include "execd/files/upload_form.h"
#include "folder.h"

static int read_text(struct arena *a, const char *text, struct permission *ret)
{
    struct json *v;

    CHECK_EQ(json_parse(a, str_of(text), NULL, &v, NULL), 0);
    return permission_read(v, ret, NULL);
}

TEST(permission, is_read_from_json)
{
    AUTO_ARENA(a, 1 << 20);
    struct permission p;

    CHECK_EQ(read_text(&a, "{\"Owner\":\"ann\",\"group\":null,\"MODE\":644,\"x\":1}", &p), 0);
    CHECK_SPAN(p.owner, "ann");
    CHECK_EQ(p.group.n, 0);
    CHECK_EQ(p.mode, 644);
    CHECK_EQ(read_text(&a, "null", &p), 0);
    CHECK_EQ(p.mode, 0);
    CHECK_EQ(read_text(&a, "{\"mode\":\"644\"}", &p), -EBADMSG);
    CHECK_EQ(read_text(&a, "{\"mode\":6.0}", &p), -EBADMSG);
    CHECK_EQ(read_text(&a, "{\"owner\":0}", &p), -EBADMSG);
    CHECK_EQ(read_text(&a, "[]", &p), -EBADMSG);
}

static int resolve_mode(int64_t mode, mode_t *ret)
{
    struct permission p = {.mode = mode};
    struct permission_ids ids;
    int r = permission_resolve(&p, &ids, NULL);

    if (r == 0)
        *ret = ids.set_mode ? ids.mode : 01000;
    return r;
}

TEST(permission, reads_decimal_digits_as_octal_ones)
{
    static const struct {
        int64_t number;
        mode_t mode;
    } rows[] = {
        {644,    0644             },
        {7,      07               },
        {4755,   0755             },
        {100600, 0600             },
        {0,      01000 /* leave */},
    };
    mode_t mode = 0;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_EQ(resolve_mode(rows[i].number, &mode), 0);
        CHECK_EQ(mode, rows[i].mode);
    }
    CHECK_EQ(resolve_mode(648, &mode), -EINVAL);
    CHECK_EQ(resolve_mode(9000, &mode), -EINVAL);
    CHECK_EQ(resolve_mode(-644, &mode), -EINVAL);
    CHECK_EQ(resolve_mode(INT64_MIN, &mode), -EINVAL);
    CHECK_EQ(resolve_mode(INT64_MAX, &mode), -EINVAL);
}

TEST(permission, is_applied_through_links)
{
    AUTO_FOLDER(folder);
    struct permission_ids ids = {.uid = getuid(), .gid = (gid_t)-1, .mode = 0612, .set_mode = true};
    struct err e = {0};
    struct stat st;

    file_write("f", "");
    CHECK_EQ(symlink("f", "l"), 0);
    CHECK_EQ(permission_apply(&ids, "l", &e), 0);
    CHECK_EQ(stat("f", &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0612);
    CHECK_EQ(permission_apply(&ids, "nothing", &e), -ENOENT);
    CHECK_STR(e.msg, "chmod nothing: no such file or directory");
}

TEST(permission, comes_with_a_path_in_uploads)
{
    AUTO_ARENA(a, 1 << 20);
    struct upload_meta m;
    struct err e = {0};

    CHECK_EQ(upload_meta_read(&a, STR("{\"path\":\"/a\",\"mode\":600,\"owner\":null}"), &m, &e), 0);
    CHECK_SPAN(m.path, "/a");
    CHECK_EQ(m.permission.mode, 600);
    CHECK_EQ(upload_meta_read(&a, STR("{\"path\":\"\"}"), &m, &e), -ENOKEY);
    CHECK_STR(e.msg, "metadata path is empty");
    CHECK_EQ(upload_meta_read(&a, STR("{}"), &m, &e), -ENOKEY);
    CHECK_EQ(upload_meta_read(&a, STR("null"), &m, &e), -ENOKEY);
    CHECK_EQ(upload_meta_read(&a, STR("{\"path\":1}"), &m, &e), -EBADMSG);
    CHECK_EQ(upload_meta_read(&a, STR("[]"), &m, &e), -EBADMSG);
    CHECK_EQ(upload_meta_read(&a, STR("{"), &m, &e), -EBADMSG);
    CHECK_EQ(upload_meta_read(&a, STR(""), &m, &e), -EBADMSG);
}
