#include "execd/files/file_info.h"

#include <stdio.h>

#include "base/time.h"

enum { STAMP_MAX = TIME_TEXT_MAX + sizeof(".123456789"), NS_DIGITS = 9 };

struct file_facts file_facts_of(const struct stat *st)
{
    return (struct file_facts){
        .mode = st->st_mode,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .size = st->st_size,
        .modified = st->st_mtim,
        .changed = st->st_ctim,
    };
}

static const char *type_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "directory";
    case S_IFLNK:
        return "symlink";
    default:
        return "other";
    }
}

/* In nanoseconds, without trailing zeros. */
static void write_time(struct json_writer *w, struct str key, struct timespec t)
{
    char text[STAMP_MAX], fraction[NS_DIGITS + 2];
    int64_t s = t.tv_sec;
    size_t n;

    s = s < TIME_MIN_US / TIME_US_PER_S ? TIME_MIN_US / TIME_US_PER_S : s;
    s = s > TIME_MAX_US / TIME_US_PER_S ? TIME_MAX_US / TIME_US_PER_S : s;
    n = time_format(s * TIME_US_PER_S, text) - 1; /* without its Z */
    if (t.tv_nsec > 0 && t.tv_nsec < 1000000000) {
        int digits = snprintf(fraction, sizeof(fraction), ".%09u", (unsigned)t.tv_nsec);

        while (fraction[digits - 1] == '0')
            digits--;
        memcpy(text + n, fraction, (size_t)digits);
        n += (size_t)digits;
    }
    text[n++] = 'Z';
    json_member_string(w, key, str_make(text, n));
}

static int64_t mode_as_number(mode_t mode)
{
    return (mode >> 6 & 7) * 100 + (mode >> 3 & 7) * 10 + (mode & 7);
}

void file_info_write(struct json_writer *w, struct str path, const struct file_facts *f,
                     struct user_cache *users)
{
    json_write_object(w);
    json_member_string(w, STR("path"), path);
    json_member_string(w, STR("type"), str_of(type_name(f->mode)));
    json_member_i64(w, STR("size"), f->size);
    write_time(w, STR("modified_at"), f->modified);
    write_time(w, STR("created_at"), f->changed);
    json_member_string(w, STR("owner"), str_of(user_cache_name(users, f->uid)));
    json_member_string(w, STR("group"), str_of(group_cache_name(users, f->gid)));
    json_member_i64(w, STR("mode"), mode_as_number(f->mode));
    json_write_object_end(w);
}
