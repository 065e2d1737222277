#include "server/oidc/oidc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/oidc/claims.h"
#include "server/oidc/oidc_internal.h"

enum {
    SECRET_BYTES_MAX = 4096,
    LOOKUP_MS = 5000,
    CONNECT_MS = 5000,
    TOKEN_ARENA_MAX = 256 * 1024,
};

int64_t oidc_now_s(void)
{
    return time_wall_us() / TIME_US_PER_S;
}

struct sessions *oidc_sessions(struct oidc *o)
{
    return o->sessions;
}

const struct config *oidc_config(const struct oidc *o)
{
    return o->conf.config;
}

bool oidc_is_secure(const struct oidc *o)
{
    return str_starts(str_of(o->conf.config->auth_oidc.public_url), STR("https:"));
}

/* --- documents --- */

struct fetch_spec oidc_fetch_spec(const struct oidc *o, struct str url)
{
    return (struct fetch_spec){
        .loop = o->conf.loop,
        .web = o->web,
        .tls = tls_client_security(o->tls),
        .url = url,
    };
}

static uint64_t age_s(const struct oidc *o, uint64_t since_ns)
{
    return (loop_now_ns(o->conf.loop) - since_ns) / TIME_NS_PER_MS / 1000;
}

static void run_waits(struct oidc *o, const struct err *e)
{
    struct list now;

    list_init(&now);
    while (!list_empty(&o->waits)) { /* those that come meanwhile wait for another time */
        struct list *first = o->waits.next;

        list_remove(first);
        list_push(&now, first);
    }
    while (!list_empty(&now)) {
        struct oidc_wait *w = container_of(now.next, struct oidc_wait, link);

        list_remove(&w->link);
        w->run(w, e);
    }
}

/* What was known before stays known when reading fails. */
static void reading_failed(struct oidc *o, const struct err *e)
{
    o->reading = false;
    arena_done(&o->next_texts);
    log_event(LOG_WARN, "cannot read the documents of the OpenID provider",
              LOG_STR("issuer", o->conf.config->auth_oidc.issuer), LOG_STR("error", e->msg));
    run_waits(o, o->known ? NULL : e);
}

static void on_keys(struct fetch *f, int error, const struct err *e)
{
    struct oidc *o = f->user;
    struct err why = {0};

    if (!error && jwks_parse(&o->next_texts, buf_str(&f->body), &o->next_keys, &why) < 0) {
        error = why.code;
        e = &why;
    }
    if (error) {
        reading_failed(o, e);
        return;
    }
    arena_done(&o->texts);
    o->texts = o->next_texts;
    arena_init(&o->next_texts, 4 * FETCH_BYTES_MAX);
    o->metadata = o->next_metadata;
    o->keys = o->next_keys;
    o->known = true;
    o->reading = false;
    o->read_ns = loop_now_ns(o->conf.loop);
    run_waits(o, NULL);
}

static void on_metadata(struct fetch *f, int error, const struct err *e)
{
    struct oidc *o = f->user;
    struct fetch_spec spec;
    struct err why = {0};

    if (!error &&
        metadata_parse(&o->next_texts, buf_str(&f->body), str_of(o->conf.config->auth_oidc.issuer),
                       &o->next_metadata, &why) < 0) {
        error = why.code;
        e = &why;
    }
    if (error) {
        reading_failed(o, e);
        return;
    }
    spec = oidc_fetch_spec(o, o->next_metadata.jwks_uri);
    fetch_start(f, &spec, on_keys, o);
}

static void read_documents(struct oidc *o)
{
    struct str issuer = str_of(o->conf.config->auth_oidc.issuer);
    AUTO_BUF(url, OIDC_URL_MAX);
    struct fetch_spec spec;

    if (o->reading)
        return;
    o->reading = true;
    o->tried_ns = loop_now_ns(o->conf.loop);
    arena_done(&o->next_texts);
    if (str_ends(issuer, STR("/")))
        issuer.n--;
    (void)buf_addf(&url, "%.*s/.well-known/openid-configuration", STR_ARG(issuer));
    spec = oidc_fetch_spec(o, buf_str(&url));
    fetch_start(&o->fetch, &spec, on_metadata, o);
}

void oidc_when_known(struct oidc *o, struct oidc_wait *w,
                     void (*run)(struct oidc_wait *w, const struct err *e))
{
    bool old =
        o->known && age_s(o, o->read_ns) >= OIDC_FRESH_S && age_s(o, o->tried_ns) >= OIDC_RETRY_S;

    w->run = run;
    list_init(&w->link);
    if (o->known && !old) {
        run(w, NULL);
        return;
    }
    list_push(&o->waits, &w->link);
    read_documents(o);
}

void oidc_when_read_again(struct oidc *o, struct oidc_wait *w,
                          void (*run)(struct oidc_wait *w, const struct err *e))
{
    w->run = run;
    list_init(&w->link);
    if (!o->reading && age_s(o, o->tried_ns) < OIDC_RETRY_S) {
        run(w, NULL);
        return;
    }
    list_push(&o->waits, &w->link);
    read_documents(o);
}

/* --- tokens --- */

int oidc_verify(const struct oidc *o, const struct jwt *t, const struct jwt_rules *rules,
                struct err *e)
{
    const struct jwk *key = jwks_find(&o->keys, t);
    int r;

    if (!key)
        return err_set(e, ENOENT, "the provider has no key that the token is signed by");
    r = jwks_verify(key, t, e);
    return r < 0 ? r : jwt_check(t, rules, e);
}

int oidc_check_bearer(struct oidc *o, struct str token, struct principal *ret, struct err *e)
{
    const struct config *config = o->conf.config;
    const struct jwt_rules rules = {
        .issuer = str_of(config->auth_oidc.issuer),
        .audience = str_of(config->auth_oidc.api_audience),
        .now_s = oidc_now_s(),
    };
    AUTO_ARENA(arena, TOKEN_ARENA_MAX);
    struct jwt t;
    int r;

    if (!rules.audience.n)
        return err_set(e, EACCES, "this server takes no access tokens: auth.oidc.api_audience");
    r = jwt_parse(&arena, token, &t, e);
    if (r == 0)
        r = oidc_verify(o, &t, &rules, e);
    if (r == -ENOENT && age_s(o, o->tried_ns) >= OIDC_RETRY_S)
        read_documents(o); /* for the next request */
    if (r == 0)
        r = claims_principal(t.claims, config, ret, e);
    return r < 0 ? -(e->code = EACCES) : 0;
}

/* --- construction --- */

static int load_secret(struct oidc *o, struct err *e)
{
    const char *path = o->conf.config->auth_oidc.client_secret_file;
    int r;

    buf_init(&o->secret, SECRET_BYTES_MAX);
    buf_keep_secret(&o->secret);
    if (!path[0])
        return buf_add(&o->secret, str_of(o->conf.config->auth_oidc.client_secret));
    r = io_read_file(AT_FDCWD, path, SECRET_BYTES_MAX, &o->secret, e);
    if (r < 0)
        return err_wrap(e, r, "auth.oidc.client_secret_file");
    buf_cut(&o->secret, str_find(buf_str(&o->secret), '\n'));
    if (!str_trim(buf_str(&o->secret)).n)
        return err_set(e, EINVAL, "auth.oidc.client_secret_file: '%s' has no secret", path);
    return 0;
}

int oidc_new(const struct oidc_conf *conf, struct oidc **ret, struct err *e)
{
    const struct image_web_conf web = {
        .loop = conf->loop,
        .pool = conf->pool,
        .proxy = conf->proxy,
        .lookup_ms = LOOKUP_MS,
        .connect_ms = CONNECT_MS,
        .head_ms = FETCH_MS,
        .stall_ms = FETCH_MS,
    };
    const char *ca_file = conf->config->auth_oidc.ca_file;
    struct oidc *o = mem_new(struct oidc);
    int r;

    o->conf = *conf;
    o->sessions = sessions_new();
    o->codes = sessions_new();
    list_init(&o->waits);
    list_init(&o->sign_ins);
    arena_init(&o->texts, 4 * FETCH_BYTES_MAX);
    arena_init(&o->next_texts, 4 * FETCH_BYTES_MAX);
    id_random_bytes(o->login_key, sizeof(o->login_key));
    r = load_secret(o, e);
    if (r == 0)
        r = tls_client_new(
            &(struct tls_client_conf){.ca_file = ca_file[0] ? ca_file : NULL, .secret = true},
            &o->tls, e);
    if (r == 0)
        r = image_web_new(&web, &o->web, e);
    if (r < 0) {
        oidc_free(o);
        return r;
    }
    read_documents(o);
    *ret = o;
    return 0;
}

void oidc_free(struct oidc *o)
{
    struct err e = {0};

    if (!o)
        return;
    fetch_done(&o->fetch);
    (void)err_set(&e, ECANCELED, "the server is stopping");
    run_waits(o, &e);
    oidc_sign_ins_cancel(o);
    image_web_free(o->web);
    tls_client_free(o->tls);
    sessions_free(o->sessions);
    sessions_free(o->codes);
    arena_done(&o->texts);
    arena_done(&o->next_texts);
    buf_done(&o->secret);
    free(o);
}
