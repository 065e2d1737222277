/* config_oidc.c - checks of [auth.oidc]. */
#include <arpa/inet.h>

#include "base/url.h"
#include "server/config/config_internal.h"

/* By its address, not by how it begins: 127.example.com is somewhere else. */
static bool is_this_machine(struct str host)
{
    char text[INET_ADDRSTRLEN];
    struct in_addr addr;

    if (str_eq_nocase(host, STR("localhost")) || str_eq(host, STR("::1")))
        return true;
    return str_copy(text, sizeof(text), host) == 0 && inet_pton(AF_INET, text, &addr) == 1 &&
           ntohl(addr.s_addr) >> 24 == 127;
}

bool config_url_is_safe(struct str url)
{
    struct url u;

    if (url_split(url, &u, NULL) < 0)
        return false;
    return u.scheme == URL_HTTPS || (u.scheme == URL_HTTP && is_this_machine(u.host));
}

struct checking {
    const struct config *c;
    const struct toml *root;
    struct config_report *report;
};

static void complain(const struct checking *k, const char *key, const char *what)
{
    const struct toml *v = toml_get_path(k->root, str_of(key));
    struct config_place at = {k->c->path, v ? toml_pos(v) : (struct toml_pos){0}};

    config_error(k->report, &at, "%s: %s", key, what);
}

static bool is_role(const char *word)
{
    static const char *const words[] = {"read_only", "operator", "admin", "service_admin"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

static void check_urls(const struct checking *k)
{
    const char *public_url = k->c->auth_oidc.public_url;
    struct url u;

    if (!config_url_is_safe(str_of(k->c->auth_oidc.issuer)))
        complain(k, "auth.oidc.issuer", "expected an address of https, or of http on this machine");
    if (!public_url[0])
        complain(k, "auth.oidc.public_url", "sign-in needs it");
    else if (!config_url_is_safe(str_of(public_url)) ||
             url_split(str_of(public_url), &u, NULL) < 0 || u.path.n > 0 || u.query.p ||
             strchr(public_url, '#') ||
             str_ends(str_of(public_url), u.scheme == URL_HTTPS ? STR(":443") : STR(":80")))
        complain(
            k, "auth.oidc.public_url",
            "expected an address of https, or of http on this machine, without a path, a slash "
            "at its end, or the usual port: what browsers send as Origin");
}

static void check_lists(const struct checking *k)
{
    const struct config_list *scopes = &k->c->auth_oidc.scopes;
    const struct config_pairs *roles = &k->c->auth_oidc.roles;
    bool openid = false;

    for (size_t i = 0; i < scopes->count; i++)
        openid |= strcmp(scopes->at[i], "openid") == 0;
    if (!openid)
        complain(k, "auth.oidc.scopes", "openid must be one of them");
    if (roles->count == 0)
        complain(k, "auth.oidc.roles", "without a group that has a role nobody can sign in");
    for (size_t i = 0; i < roles->count; i++)
        if (!is_role(roles->at[i].value))
            complain(k, "auth.oidc.roles",
                     "expected read_only, operator, admin or service_admin for each group");
}

void config_oidc_check(const struct config *c, const struct toml *root,
                       struct config_report *report)
{
    struct checking k = {c, root, report};

    if (!c->auth_oidc.issuer[0]) {
        if (c->auth_oidc.client_id[0] || c->auth_oidc.public_url[0] || c->auth_oidc.roles.count)
            complain(&k, "auth.oidc.issuer", "sign-in needs it");
        return;
    }
    check_urls(&k);
    check_lists(&k);
    if (!c->auth_oidc.client_id[0])
        complain(&k, "auth.oidc.client_id", "sign-in needs it");
    if (c->auth_oidc.client_secret[0] && c->auth_oidc.client_secret_file[0])
        complain(&k, "auth.oidc.client_secret", "goes without client_secret_file");
    if (strcmp(c->auth_oidc.client_secret, CONFIG_HIDDEN) == 0)
        complain(&k, "auth.oidc.client_secret", "this stands for a secret in --print-config");
    if (c->auth.mode == CONFIG_AUTH_USER)
        complain(&k, "auth.oidc", "goes with auth.mode = \"api_key_only\": the proxy knows users");
}
