#include "execd/files/upload_form.h"

#include <errno.h>

#include "execd/files/file_op.h"

int upload_meta_read(struct arena *a, struct str text, struct upload_meta *ret, struct err *e)
{
    static const struct json_limits limits = {
        .nodes_max = 1024,
        .duplicates = JSON_DUPLICATES_LAST,
        .first_only = true,
        .replace_invalid = true,
    };
    struct upload_meta meta = {.path = STR("")};
    const struct json *path;
    struct json *v;
    int r = json_parse(a, text, &limits, &v, e);

    if (r < 0)
        return r == -ENOMEM ? r : -EBADMSG;
    if (permission_read(v, &meta.permission, e) < 0)
        return -EBADMSG;
    path = file_member(v, STR("path"));
    if (path && json_to_str(path, &meta.path) < 0)
        return err_set(e, EBADMSG, "path: expected a string, got %s", json_type_name(path));
    if (meta.path.n == 0)
        return err_set(e, ENOKEY, "metadata path is empty");
    *ret = meta;
    return 0;
}
