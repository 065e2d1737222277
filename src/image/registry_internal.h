/* registry_internal.h - what the files of the registry's client share. */
#pragma once

#include "image/challenge.h"
#include "image/registry.h"
#include "image/web.h"

enum { IMAGE_TOKENS_MAX = 256 };

/* A place to ask: a mirror, or the registry itself. */
struct image_endpoint {
    struct str base; /* "https://host:port/path", without a slash at its end */
    struct str host; /* by which credentials go: "docker.io", "mirror:5000" */
    bool is_origin;
};

const struct image_registry_conf *image_registry_conf_of(const struct image_registry *r);
struct image_web *image_registry_web(const struct image_registry *r);
/* In order; the registry itself is the last. */
int image_registry_endpoints(struct image_registry *r, const char *registry, bool skip_mirrors,
                             struct arena *a, struct image_endpoint *ret, size_t *ret_count,
                             struct err *e);
/* The TLS context for a host by its rule. */
struct stream_security *image_registry_tls(struct image_registry *r, const struct url *url);
/* Whether a rule allows http to this host. */
bool image_registry_allows_http(const struct image_registry *r, const struct url *url);

/* Tokens by host, repository and user. STR_NONE when there is none, or no longer. */
struct str image_token_get(struct image_registry *r, struct str key);
void image_token_put(struct image_registry *r, struct str key, struct str token, uint64_t ttl_s);
void image_token_drop(struct image_registry *r, struct str key);

/* token.c - the request for a token, and its answer. */

/* "Basic <base64>"; NULL when there is no user, or no room. */
const char *image_basic_header(struct arena *a, const struct image_auth *auth);
/* Where to ask for a token for `actions` ("pull", "pull,push") in `repository`; `body` is NULL for
 * a GET. */
int image_token_request(struct arena *a, const struct image_challenge *c, struct str repository,
                        const char *actions, const struct image_auth *auth, const char **ret_url,
                        const char **ret_body, struct err *e);
int image_token_parse(struct arena *a, struct str answer, struct str *ret_token,
                      uint64_t *ret_ttl_s, struct err *e);
/* The registry's own words in an answer that is an error, as far as they can be shown. */
struct str image_answer_message(struct arena *a, struct str answer);
