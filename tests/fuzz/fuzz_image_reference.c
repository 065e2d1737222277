/* A name that is taken prints, and what is printed means the same. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "image/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);
    struct image_reference once, twice;
    struct err e = {0};
    char out[IMAGE_REFERENCE_TEXT_MAX], again[IMAGE_REFERENCE_TEXT_MAX];
    int r = image_reference_parse(text, &once, &e);

    if (r < 0) {
        FUZZ_CHECK((r == -EINVAL || r == -ENOTSUP) && e.msg[0]);
        return 0;
    }
    FUZZ_CHECK(once.registry[0] && once.repository[0]);
    FUZZ_CHECK(once.tag[0] || once.digest.text[0]);
    FUZZ_CHECK(!strstr(once.repository, "..") && once.repository[0] != '/');
    image_reference_format(&once, out);
    FUZZ_CHECK(image_reference_parse(str_of(out), &twice, NULL) == 0);
    image_reference_format(&twice, again);
    FUZZ_CHECK(strcmp(out, again) == 0);
    return 0;
}
