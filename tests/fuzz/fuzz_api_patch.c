/* Metadata to start from, a line break, and a patch. What comes out is metadata again, and the same
 * patch once more changes nothing. */
#include "api/lifecycle.h"
#include "base/json.h"
#include "fuzz.h"

enum { ROOM = 4 << 20 };

static void check_labels(struct arena *a, struct str json, const struct api_patch *patch)
{
    struct json *tree;

    FUZZ_CHECK(json_parse(a, json, NULL, &tree, NULL) == 0 && tree->type == JSON_OBJECT);
    FUZZ_CHECK(json_count(tree) <= API_METADATA_MAX);
    for (size_t i = 0; i < patch->count; i++) {
        const struct json *got = json_get(tree, patch->pairs[i].key);

        FUZZ_CHECK((got != NULL) == (patch->pairs[i].value.p != NULL));
        FUZZ_CHECK(!got || str_eq(got->string, patch->pairs[i].value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_ARENA(a, ROOM);
    struct str text = str_make((const char *)data, size), base, once, twice;
    struct api_fail f = {0};
    struct api_patch patch;
    struct api_pool pool;
    int64_t us;

    if (!str_cut(&text, '\n', &base))
        return 0;
    (void)api_renew_parse(&a, STR("application/json"), text, &us, &f);
    (void)api_pool_parse(&a, STR("application/json"), text, true, &pool, &f);
    if (api_patch_parse(&a, STR("application/json"), text, &patch, &f) < 0 ||
        api_patch_apply(&a, base, &patch, &once, &f) < 0) {
        FUZZ_CHECK(f.status >= 400 && f.code && f.message[0]);
        return 0;
    }
    check_labels(&a, once, &patch);
    FUZZ_CHECK(api_patch_apply(&a, once, &patch, &twice, &f) == 0);
    FUZZ_CHECK(str_eq(once, twice));
    return 0;
}
