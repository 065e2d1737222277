#include "execd/core/fields.h"

#include <errno.h>
#include <string.h>

int fields_find(struct str text, const char *name, uint64_t *ret)
{
    struct str line, rest;

    while (str_cut(&text, '\n', &line)) {
        if (!str_starts(line, str_of(name)))
            continue;
        rest = str_skip(line, strlen(name));
        if (rest.n == 0 || (rest.p[0] != ' ' && rest.p[0] != ':'))
            continue;
        rest = str_trim(str_skip(rest, 1));
        if (str_ends(rest, STR(" kB")))
            rest.n -= 3;
        return str_to_u64(rest, ret) < 0 ? -EINVAL : 0;
    }
    return -ENOENT;
}
