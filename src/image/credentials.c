#include "image/credentials.h"

#include <errno.h>

#include "base/codec.h"
#include "base/json_bind.h"
#include "image/reference.h"

struct entry {
    struct str auth, username, password, identity_token;
};

static const struct json_field entry_fields[] = {
    JSON_FIELD("auth", JSON_AS_STR, JSON_NULLABLE, struct entry, auth, .max = IMAGE_AUTH_BYTES_MAX),
    JSON_FIELD("username", JSON_AS_STR, JSON_NULLABLE, struct entry, username,
               .max = IMAGE_AUTH_BYTES_MAX),
    JSON_FIELD("password", JSON_AS_STR, JSON_NULLABLE, struct entry, password,
               .max = IMAGE_AUTH_BYTES_MAX),
    JSON_FIELD("identitytoken", JSON_AS_STR, JSON_NULLABLE, struct entry, identity_token,
               .max = IMAGE_AUTH_BYTES_MAX),
};
static const struct json_table entry_table = JSON_TABLE(struct entry, entry_fields, 0);

static bool has_control(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return true;
    return false;
}

int image_auth_check(const struct image_auth *auth, struct err *e)
{
    if (auth->password.n && !auth->username.n)
        return err_set(e, EINVAL, "a password without a user name");
    if (str_find(auth->username, ':') < auth->username.n)
        return err_set(e, EINVAL, "a user name must not have a colon");
    if (has_control(auth->username) || has_control(auth->password) ||
        has_control(auth->identity_token))
        return err_set(e, EINVAL, "a control character in user name or password");
    if (auth->username.n > IMAGE_AUTH_BYTES_MAX || auth->password.n > IMAGE_AUTH_BYTES_MAX ||
        auth->identity_token.n > IMAGE_AUTH_BYTES_MAX)
        return err_set(e, EINVAL, "user name and password have at most %d bytes each",
                       IMAGE_AUTH_BYTES_MAX);
    return 0;
}

/* "auth" is base64 of "user:password". */
static int decode_auth(struct arena *a, struct str text, struct image_auth *ret)
{
    size_t room = BASE64_DATA_MAX(text.n), n;
    char *plain = arena_alloc(a, room + 1);
    struct str rest;
    int r;

    if (!plain)
        return -ENOMEM;
    r = base64_decode(text, BASE64_STD, plain, room, &n);
    if (r < 0)
        return -EINVAL;
    rest = str_make(plain, n);
    if (!str_cut(&rest, ':', &ret->username) || !rest.p)
        return -EINVAL;
    ret->password = rest;
    return 0;
}

static int read_entry(struct arena *a, const struct json *v, struct image_auth *ret, struct err *e)
{
    struct image_auth auth = {0};
    struct entry entry = {0};
    int r = json_bind(a, v, &entry_table, &entry, e);

    if (r < 0)
        return err_set(e, EINVAL, "%s", e ? e->msg : "");
    if (entry.auth.n && decode_auth(a, entry.auth, &auth) < 0)
        return err_set(e, EINVAL, "auth is not base64 of user:password");
    if (!entry.auth.n) {
        auth.username = entry.username;
        auth.password = entry.password;
    }
    auth.identity_token = entry.identity_token;
    r = image_auth_check(&auth, e);
    if (r < 0)
        return r;
    *ret = auth;
    return image_auth_is_set(ret) ? 1 : 0;
}

/* How much of registry and repository a key names: -1 when it names others. "/v1/" and "/v2/" are
 * the whole registry, as Docker once wrote them. */
static int key_match(struct str key, struct str registry, struct str repository)
{
    struct str path = key, host;

    if (!str_eq_nocase(image_registry_canonical(key), image_registry_canonical(registry)))
        return -1;
    if (str_find_str(key, STR("://")) < key.n)
        path = str_skip(key, str_find_str(key, STR("://")) + 3);
    (void)str_cut(&path, '/', &host);
    while (path.n && path.p[path.n - 1] == '/')
        path.n--;
    if (path.n == 0 || str_eq(path, STR("v1")) || str_eq(path, STR("v2")))
        return 0;
    if (str_eq(path, repository) ||
        (repository.n > path.n && str_starts(repository, path) && repository.p[path.n] == '/'))
        return (int)min_size(path.n, IMAGE_NAME_MAX);
    return -1;
}

static const struct json *best_member(const struct json *object, struct str registry,
                                      struct str repository)
{
    const struct json *best = NULL;
    int best_match = -1;

    json_each(item, object)
    {
        int match = key_match(item->key, registry, repository);

        if (match > best_match) {
            best = item;
            best_match = match;
        }
    }
    return best;
}

static int refuse_helper(const struct json *doc, struct str registry, struct err *e)
{
    const struct json *helper = best_member(json_get(doc, STR("credHelpers")), registry, STR_NONE);
    struct str name = STR_NONE;

    if (!helper)
        helper = json_get(doc, STR("credsStore"));
    if (json_to_str(helper, &name) < 0 || name.n == 0)
        return 0;
    return err_set(e, ENOTSUP,
                   "it leaves %.*s to the credential helper '%.*s', and helpers are not run: put "
                   "user name and password under auths",
                   (int)min_size(registry.n, 80), registry.p, (int)min_size(name.n, 40), name.p);
}

int image_credentials_find(struct arena *a, struct str text, struct str registry,
                           struct str repository, struct image_auth *ret, struct err *e)
{
    static const struct json_limits limits = {.text_bytes_max = IMAGE_CREDENTIALS_BYTES_MAX,
                                              .depth_max = 16};
    const struct json *auths, *found;
    struct image_auth auth = {0};
    struct json *doc;
    int r = json_parse(a, text, &limits, &doc, e);

    if (r < 0)
        return err_set(e, EINVAL, "%s", e ? e->msg : "");
    auths = json_get(doc, STR("auths"));
    if (doc->type != JSON_OBJECT || (auths && auths->type != JSON_OBJECT))
        return err_set(e, EINVAL, "expected an object with an object 'auths'");
    found = best_member(auths, registry, repository);
    r = found ? read_entry(a, found, &auth, e) : 0;
    if (r < 0)
        return err_wrap(e, r, "auths.%.*s", (int)min_size(found->key.n, 80), found->key.p);
    if (r == 0)
        return refuse_helper(doc, registry, e);
    *ret = auth;
    return 1;
}
