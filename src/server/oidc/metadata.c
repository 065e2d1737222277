#include "server/oidc/metadata.h"

#include <errno.h>

#include "server/config/config.h"

enum { DOCUMENT_DEPTH_MAX = 16, DOCUMENT_NODES_MAX = 8192 };

static int parse(struct arena *a, struct str text, struct json **ret, struct err *e)
{
    static const struct json_limits limits = {
        .nodes_max = DOCUMENT_NODES_MAX,
        .depth_max = DOCUMENT_DEPTH_MAX,
        .duplicates = JSON_DUPLICATES_REJECT,
    };
    int r = json_parse(a, text, &limits, ret, e);

    if (r == -ENOMEM)
        return r;
    if (r < 0 || (*ret)->type != JSON_OBJECT)
        return err_set(e, EBADMSG, "the provider's answer is no JSON object");
    return 0;
}

static int take_url(const struct json *root, const char *name, struct str *ret, struct err *e)
{
    if (json_to_str(json_get(root, str_of(name)), ret) < 0 || !config_url_is_safe(*ret))
        return err_set(e, EBADMSG, "%s of the provider is no address of https", name);
    return 0;
}

/* client_secret_basic is what a provider takes that does not say. */
static bool wants_secret_in_body(const struct json *root)
{
    bool basic = false, post = false;
    const struct json *methods = json_get(root, STR("token_endpoint_auth_methods_supported"));
    struct str s;

    json_each(one, methods)
    {
        basic |= json_to_str(one, &s) == 0 && str_eq(s, STR("client_secret_basic"));
        post |= json_to_str(one, &s) == 0 && str_eq(s, STR("client_secret_post"));
    }
    return post && !basic;
}

int metadata_parse(struct arena *a, struct str text, struct str issuer, struct metadata *ret,
                   struct err *e)
{
    struct metadata m = {0};
    struct json *root;
    struct str said;
    int r = parse(a, text, &root, e);

    if (r < 0)
        return r;
    if (json_to_str(json_get(root, STR("issuer")), &said) < 0 || !str_eq(said, issuer))
        return err_set(e, EBADMSG, "the provider says that it is another issuer");
    r = take_url(root, "authorization_endpoint", &m.authorization_endpoint, e);
    if (r == 0)
        r = take_url(root, "token_endpoint", &m.token_endpoint, e);
    if (r == 0)
        r = take_url(root, "jwks_uri", &m.jwks_uri, e);
    if (r < 0)
        return r;
    m.secret_in_body = wants_secret_in_body(root);
    *ret = m;
    return 0;
}

int metadata_id_token(struct arena *a, struct str answer, struct str *ret, struct err *e)
{
    struct json *root;
    int r = parse(a, answer, &root, e);

    if (r == 0 && json_to_str(json_get(root, STR("id_token")), ret) < 0)
        return err_set(e, EBADMSG, "the provider gave no id_token");
    return r;
}
