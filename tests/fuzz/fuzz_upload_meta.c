/* The metadata of an uploaded file: read or refused, and what is read makes sense. */
#include "execd/files/upload_form.h"

#include <errno.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_ARENA(a, 1 << 20);
    struct upload_meta m;
    struct err e = {0};
    struct permission_ids ids;
    int r = upload_meta_read(&a, str_make((const char *)data, size), &m, &e);

    if (r < 0) {
        FUZZ_CHECK(r == -EBADMSG || r == -ENOKEY || r == -ENOMEM);
        FUZZ_CHECK(r == -ENOMEM || e.msg[0] != '\0');
        return 0;
    }
    FUZZ_CHECK(m.path.n > 0);
    m.permission.owner = m.permission.group = STR_NONE; /* they depend on this machine's accounts */
    if (permission_resolve(&m.permission, &ids, &e) == 0)
        FUZZ_CHECK(ids.mode <= 0777 && ids.set_mode == (m.permission.mode != 0));
    return 0;
}
