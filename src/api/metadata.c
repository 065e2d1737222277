#include "api/metadata.h"

#include <errno.h>
#include <stdlib.h>

#include "api/answer.h"
#include "api/body.h"

enum { NAME_BYTES_MAX = 63, PREFIX_BYTES_MAX = 253, METADATA_BYTES_MAX = 256 * 1024 };

#define INVALID_LABEL   "SANDBOX::INVALID_METADATA_LABEL"
#define RESERVED_PREFIX "opensandbox.io/"

/* --- labels --- */

static bool is_lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || ascii_is_digit(c);
}

static bool is_alnum(char c)
{
    return ascii_is_alpha(c) || ascii_is_digit(c);
}

/* At least one byte: `outer` characters at both ends, and also those of `inner` between them. */
static bool is_word(struct str s, bool (*outer)(char c), const char *inner)
{
    if (s.n == 0 || !outer(s.p[0]) || !outer(s.p[s.n - 1]))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!outer(s.p[i]) && (s.p[i] == '\0' || !strchr(inner, s.p[i])))
            return false;
    return true;
}

bool api_is_name(struct str s, size_t max)
{
    return s.n <= max && is_word(s, is_lower_alnum, "-");
}

static bool is_label_name(struct str s)
{
    return s.n <= NAME_BYTES_MAX && is_word(s, is_alnum, "-_.");
}

static bool is_label_prefix(struct str s)
{
    struct str part;

    if (s.n > PREFIX_BYTES_MAX)
        return false;
    while (str_cut(&s, '.', &part))
        if (!api_is_name(part, PREFIX_BYTES_MAX))
            return false;
    return true;
}

bool api_is_label_key(struct str key)
{
    size_t slash = str_find(key, '/');

    if (slash == key.n)
        return is_label_name(key);
    return is_label_prefix(str_make(key.p, slash)) && is_label_name(str_skip(key, slash + 1));
}

bool api_is_label_value(struct str value)
{
    return value.n == 0 || is_label_name(value);
}

static int label_check(const struct json_pair *pair, struct api_fail *f)
{
    if (!api_is_label_key(pair->key))
        return api_fail_set(f, 400, INVALID_LABEL,
                            "metadata key '%s': expected a name, or a DNS prefix, / and a name; a "
                            "name has 1 to 63 letters, digits, '-', '_' or '.', and begins and "
                            "ends with a letter or digit",
                            api_show(pair->key).text);
    if (!api_is_label_value(pair->value))
        return api_fail_set(f, 400, INVALID_LABEL,
                            "metadata value of '%s': expected at most 63 letters, digits, '-', '_' "
                            "or '.', with a letter or digit at both ends, or nothing",
                            api_show(pair->key).text);
    return 0;
}

/* Patches and creation use different codes for the same mistake; clients test for both. */
static int label_check_reserved(struct str key, const char *code, struct api_fail *f)
{
    if (!str_starts(key, STR(RESERVED_PREFIX)))
        return 0;
    return api_fail_set(f, 400, code,
                        "metadata key '%s': keys that begin with " RESERVED_PREFIX
                        " are the server's own; choose another prefix",
                        api_show(key).text);
}

int api_labels_check(const struct json_pair *pairs, size_t count, struct api_fail *f)
{
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++) {
        r = label_check_reserved(pairs[i].key, INVALID_LABEL, f);
        if (r == 0)
            r = label_check(&pairs[i], f);
    }
    return r;
}

/* --- patches --- */

int api_patch_parse(struct arena *a, struct str type, struct str body, struct api_patch *ret,
                    struct api_fail *f)
{
    struct json *tree;
    int r = api_body_parse(a, type, body, &tree, f);

    if (r < 0)
        return r;
    return api_pairs_parse(a, tree, "body", API_PATCH_MAX, &ret->pairs, &ret->count, f);
}

static int patch_check(const struct api_patch *patch, struct api_fail *f)
{
    int r = 0;

    for (size_t i = 0; i < patch->count && r == 0; i++)
        r = label_check_reserved(patch->pairs[i].key, "INVALID_METADATA_LABEL", f);
    for (size_t i = 0; i < patch->count && r == 0; i++)
        if (patch->pairs[i].value.p)
            r = label_check(&patch->pairs[i], f);
    return r;
}

/* The current metadata, written by us: an error in it is not the client's fault. */
static int patch_read_base(struct arena *a, struct str base, struct api_patch *ret,
                           struct api_fail *f)
{
    struct json *tree;

    *ret = (struct api_patch){0};
    if (base.n == 0)
        return 0;
    if (json_parse(a, base, NULL, &tree, NULL) < 0 ||
        api_pairs_parse(a, tree, "metadata", API_METADATA_MAX, &ret->pairs, &ret->count, f) < 0)
        return api_fail_set(f, 500, "DOCKER::SANDBOX_QUERY_FAILED",
                            "the sandbox's stored metadata is damaged; delete the sandbox");
    return 0;
}

/* Replaces the pair with the same key, or appends the pair. */
static void merge_set(struct json_pair *pairs, size_t *count, const struct json_pair *pair)
{
    size_t i = 0;

    while (i < *count && !str_eq(pairs[i].key, pair->key))
        i++;
    pairs[i] = *pair;
    *count += i == *count;
}

static void merge_drop_deleted(struct json_pair *pairs, size_t *count)
{
    size_t kept = 0;

    for (size_t i = 0; i < *count; i++)
        if (pairs[i].value.p)
            pairs[kept++] = pairs[i];
    *count = kept;
}

static int merge_compare(const void *a, const void *b)
{
    const struct json_pair *x = a, *y = b;

    return str_cmp(x->key, y->key);
}

static int merge_print(struct arena *a, const struct json_pair *pairs, size_t count,
                       struct str *ret_json)
{
    AUTO_BUF(out, METADATA_BYTES_MAX);
    struct str json;
    int r = api_pairs_write(&out, pairs, count);

    if (r < 0)
        return r;
    json = arena_str(a, buf_str(&out));
    if (!json.p)
        return -ENOMEM;
    *ret_json = json;
    return 0;
}

int api_patch_apply(struct arena *a, struct str base, const struct api_patch *patch,
                    struct str *ret_json, struct api_fail *f)
{
    struct json_pair *pairs;
    struct api_patch old;
    size_t count;
    int r = patch_check(patch, f);

    if (r < 0)
        return r;
    r = patch_read_base(a, base, &old, f);
    if (r < 0)
        return r;
    count = old.count;
    pairs = arena_new_array(a, struct json_pair, count + patch->count);
    if (!pairs)
        return api_fail_memory(f);
    if (count)
        memcpy(pairs, old.pairs, count * sizeof(*pairs));
    for (size_t i = 0; i < patch->count; i++)
        merge_set(pairs, &count, &patch->pairs[i]);
    merge_drop_deleted(pairs, &count);
    if (count > API_METADATA_MAX)
        return api_fail_invalid(f, "metadata: at most %d labels fit, and this would make %zu",
                                API_METADATA_MAX, count);
    if (count)
        qsort(pairs, count, sizeof(*pairs), merge_compare);
    return merge_print(a, pairs, count, ret_json) < 0 ? api_fail_memory(f) : 0;
}
