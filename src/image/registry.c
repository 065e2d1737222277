#include "image/registry.h"

#include <errno.h>
#include <stdio.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "image/registry_internal.h"
#include "net/tls.h"

enum { TOKEN_SPARE_S = 5 }; /* a token is not used in its last seconds */

struct rule {
    struct image_registry_rule conf; /* its texts are ours */
    struct tls_client *tls;          /* NULL: the one of all others */
};

struct token {
    uint64_t until_ns;
    char text[];
};

struct image_registry {
    struct image_registry_conf conf;
    struct image_web *web;
    struct tls_client *tls;
    struct rule *rules;
    size_t rule_count;
    struct map tokens;
    struct arena texts;
};

const struct image_registry_conf *image_registry_conf_of(const struct image_registry *r)
{
    return &r->conf;
}

struct image_web *image_registry_web(const struct image_registry *r)
{
    return r->web;
}

/* --- rules --- */

static const struct rule *find_rule(const struct image_registry *r, struct str registry)
{
    for (size_t i = 0; i < r->rule_count; i++)
        if (str_eq_nocase(image_registry_canonical(str_of(r->rules[i].conf.registry)),
                          image_registry_canonical(registry)))
            return &r->rules[i];
    return NULL;
}

/* The rule of the host that a URL leads to; ports that are the scheme's own may be left out. */
static const struct rule *rule_of_url(const struct image_registry *r, const struct url *url)
{
    char text[URL_HOST_BYTES_MAX + 16];
    const struct rule *rule;

    snprintf(text, sizeof(text), url->host_is_ipv6 ? "[%.*s]:%u" : "%.*s:%u", STR_ARG(url->host),
             url->port);
    rule = find_rule(r, str_of(text));
    if (!rule && url->port == (url->scheme == URL_HTTPS ? 443 : 80)) {
        snprintf(text, sizeof(text), "%s%.*s%s", url->host_is_ipv6 ? "[" : "", STR_ARG(url->host),
                 url->host_is_ipv6 ? "]" : "");
        rule = find_rule(r, str_of(text));
    }
    return rule;
}

static bool is_this_machine(struct str host)
{
    return str_eq(host, STR("localhost")) || str_starts(host, STR("localhost:")) ||
           str_starts(host, STR("127.")) || str_starts(host, STR("[::1]")) ||
           str_eq(host, STR("::1"));
}

bool image_registry_allows_http(const struct image_registry *r, const struct url *url)
{
    const struct rule *rule = rule_of_url(r, url);

    return rule && rule->conf.plain_http;
}

struct stream_security *image_registry_tls(struct image_registry *r, const struct url *url)
{
    const struct rule *rule = rule_of_url(r, url);

    return tls_client_security(rule && rule->tls ? rule->tls : r->tls);
}

bool image_registry_has_mirrors(const struct image_registry *r, const char *registry)
{
    const struct rule *rule = find_rule(r, str_of(registry));

    return rule && rule->conf.mirror_count > 0;
}

/* --- endpoints --- */

static int make_mirror(struct arena *a, const char *mirror, struct image_endpoint *ret,
                       struct err *e)
{
    struct str text = str_of(mirror);
    struct url url;
    int r;

    if (str_find_str(text, STR("://")) == text.n)
        text = str_of(arena_printf(a, "https://%s", mirror));
    while (text.n && text.p[text.n - 1] == '/')
        text.n--;
    r = text.p ? url_split(text, &url, e) : -ENOMEM;
    if (r == 0 && (url.query.p || url.scheme == URL_WS || url.scheme == URL_WSS))
        r = err_set(e, EINVAL, "expected https://host:port/path");
    if (r < 0)
        return err_wrap(e, r, "mirror '%s'", mirror);
    ret->base = arena_str(a, text);
    ret->host = arena_str(a, image_registry_canonical(text));
    ret->is_origin = false;
    return ret->base.p && ret->host.p ? 0 : err_set(e, ENOMEM, "out of room");
}

static int make_origin(const struct image_registry *r, const char *registry, struct arena *a,
                       struct image_endpoint *ret, struct err *e)
{
    const struct rule *rule = find_rule(r, str_of(registry));
    bool http = rule ? rule->conf.plain_http : is_this_machine(str_of(registry));
    /* Docker's own registry answers under another name than its images have. */
    const char *host = strcmp(registry, "docker.io") == 0 ? "registry-1.docker.io" : registry;

    ret->base = str_of(arena_printf(a, "%s://%s", http ? "http" : "https", host));
    ret->host = str_of(arena_printf(a, "%s", registry));
    ret->is_origin = true;
    return ret->base.p && ret->host.p ? 0 : err_set(e, ENOMEM, "out of room");
}

int image_registry_endpoints(struct image_registry *r, const char *registry, bool skip_mirrors,
                             struct arena *a, struct image_endpoint *ret, size_t *ret_count,
                             struct err *e)
{
    const struct rule *rule = find_rule(r, str_of(registry));
    size_t n = 0;
    int error = 0;

    for (size_t i = 0; rule && !skip_mirrors && error == 0 && i < rule->conf.mirror_count; i++)
        error = make_mirror(a, rule->conf.mirrors[i], &ret[n++], e);
    if (error == 0)
        error = make_origin(r, registry, a, &ret[n++], e);
    if (error == 0)
        *ret_count = n;
    return error;
}

/* --- tokens --- */

struct str image_token_get(struct image_registry *r, struct str key)
{
    struct token *t = map_get(&r->tokens, key);

    if (!t || t->until_ns <= loop_now_ns(r->conf.loop))
        return STR_NONE;
    return str_of(t->text);
}

void image_token_put(struct image_registry *r, struct str key, struct str token, uint64_t ttl_s)
{
    struct token *t;

    if (ttl_s <= TOKEN_SPARE_S)
        ttl_s = TOKEN_SPARE_S + 1;
    if (r->tokens.n >= IMAGE_TOKENS_MAX) { /* the first ones are the oldest */
        size_t at = 0;
        struct str oldest;

        if (map_next(&r->tokens, &at, &oldest, NULL))
            map_remove(&r->tokens, oldest);
    }
    t = mem_zalloc(sizeof(*t) + token.n + 1); /* at most TOKEN_BYTES_MAX: token.c */
    memcpy(t->text, token.p, token.n);
    t->until_ns = loop_now_ns(r->conf.loop) + (ttl_s - TOKEN_SPARE_S) * 1000 * TIME_NS_PER_MS;
    if (map_set(&r->tokens, key, t) < 0)
        free(t);
}

void image_token_drop(struct image_registry *r, struct str key)
{
    map_remove(&r->tokens, key);
}

/* --- the client --- */

static int copy_rule(struct image_registry *r, const struct image_registry_rule *from,
                     struct rule *to, struct err *e)
{
    const char **mirrors = arena_new_array(&r->texts, const char *, from->mirror_count + 1);
    struct tls_client_conf tls = {
        .ca_file = from->ca_file ? from->ca_file : r->conf.ca_file,
        .insecure_skip_verification = from->skip_verify,
    };
    struct image_endpoint checked;
    int error = 0;

    if (from->mirror_count > IMAGE_MIRRORS_MAX)
        return err_set(e, EINVAL, "%zu mirrors; at most %d are allowed", from->mirror_count,
                       IMAGE_MIRRORS_MAX);
    to->conf = *from;
    to->conf.registry = arena_strdup(&r->texts, str_of(from->registry));
    to->conf.ca_file = NULL;
    to->conf.mirrors = mirrors;
    for (size_t i = 0; mirrors && error == 0 && i < from->mirror_count; i++) {
        mirrors[i] = arena_strdup(&r->texts, str_of(from->mirrors[i]));
        error = mirrors[i] ? make_mirror(&r->texts, mirrors[i], &checked, e) : -ENOMEM;
    }
    if (error < 0)
        return error;
    if (!mirrors || !to->conf.registry)
        return err_set(e, ENOMEM, "out of room");
    if (from->ca_file || from->skip_verify)
        return tls_client_new(&tls, &to->tls, e);
    return 0;
}

static int copy_rules(struct image_registry *r, const struct image_registry_conf *conf,
                      struct err *e)
{
    if (conf->rule_count > IMAGE_REGISTRY_RULES_MAX)
        return err_set(e, EINVAL, "%zu registries with rules; at most %d are allowed",
                       conf->rule_count, IMAGE_REGISTRY_RULES_MAX);
    r->rules = mem_new_array(struct rule, conf->rule_count + 1);
    for (size_t i = 0; i < conf->rule_count; i++) {
        int error = copy_rule(r, &conf->rules[i], &r->rules[r->rule_count++], e);

        if (error < 0)
            return err_wrap(e, error, "registry '%s'", conf->rules[i].registry);
    }
    return 0;
}

int image_registry_new(const struct image_registry_conf *conf, struct image_registry **ret,
                       struct err *e)
{
    struct image_registry *r = mem_new(struct image_registry);
    struct tls_client_conf tls = {.ca_file = conf->ca_file};
    struct image_web_conf web = {
        .loop = conf->loop,
        .pool = conf->pool,
        .proxy = conf->proxy,
        .lookup_ms = conf->lookup_ms,
        .connect_ms = conf->connect_ms,
        .head_ms = conf->head_ms,
        .stall_ms = conf->stall_ms,
    };
    int error;

    r->conf = *conf;
    r->conf.tries = conf->tries ? conf->tries : 5;
    r->conf.backoff_ms = conf->backoff_ms ? conf->backoff_ms : 500;
    r->conf.retry_after_max_ms = conf->retry_after_max_ms ? conf->retry_after_max_ms : 60 * 1000;
    arena_init(&r->texts, 4 << 20);
    map_init(&r->tokens, IMAGE_TOKENS_MAX, free);
    error = image_web_new(&web, &r->web, e);
    if (error == 0)
        error = tls_client_new(&tls, &r->tls, e);
    if (error == 0)
        error = copy_rules(r, conf, e);
    if (error < 0) {
        image_registry_free(r);
        return error;
    }
    *ret = r;
    return 0;
}

void image_registry_free(struct image_registry *r)
{
    if (!r)
        return;
    image_web_free(r->web);
    for (size_t i = 0; i < r->rule_count; i++)
        tls_client_free(r->rules[i].tls);
    tls_client_free(r->tls);
    map_done(&r->tokens);
    arena_done(&r->texts);
    free(r->rules);
    free(r);
}
