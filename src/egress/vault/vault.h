/* vault.h - the credential vault of one sandbox: secrets that its requests carry and its code never
 * sees.
 *
 * A change makes a whole new set (vault_set.h) and swaps it in: a request sees one revision or the
 * next. Errors and answers never hold a value. vault_keep.h has what of it outlives the process.
 * Loop thread only. */
#pragma once

#include "egress/vault/vault_set.h"

struct http_req;
struct vault;

struct vault *vault_new(void);
void vault_free(struct vault *v); /* NULL is fine; requests under way keep their set */

/* What the vault needs to know of the program around it. */
struct vault_host {
    bool intercepting; /* TLS interception is on for this sandbox */
    bool insecure;     /* upstream certificates are not verified: writes are refused */
    bool ready;        /* the interceptor serves */
    bool cleartext;    /* the operator allows writes from elsewhere without TLS */
    /* 1: an explicit rule allows the host ("*.x": asked as such), and the policy allows it; else 0.
     * NULL: every host is allowed. */
    int (*host_allowed)(void *user, struct str host);
    /* Stores the set that a change made, before it is swapped in; NULL: nothing is in the vault any
     * more. An error ends the change. NULL: nothing is stored. */
    int (*store)(void *user, const struct vault_set *next, struct err *e);
    void *user;
};

/* The current set with a reference for the caller (vault_set_unref); NULL: nothing is in it. */
struct vault_set *vault_current(struct vault *v);
bool vault_exists(const struct vault *v);       /* for the API: it was created */
bool vault_is_lost(const struct vault *v);      /* ... and did not outlive an earlier process */
uint64_t vault_revision(const struct vault *v); /* of the API; 0: none */

/* Change the vault by the body of a request. -EEXIST: there is one already; -ENOENT: there is none;
 * -ESTALE: another revision than the expected one; -EINVAL: the body is wrong; -ENOMEM. All with a
 * text for the client. */
int vault_create(struct vault *v, struct str json, const struct vault_host *h, struct err *e);
int vault_patch(struct vault *v, struct str json, const struct vault_host *h, struct err *e);
int vault_delete(struct vault *v, const struct vault_host *h, struct err *e);

/* A secret of the environment: programs get the placeholder, requests to the hosts the value. */
struct vault_secret_env {
    struct str name;        /* of the variable */
    struct str value;       /* the secret */
    struct str placeholder; /* vault_placeholder() */
    const struct str *hosts;
    size_t host_count;
};
/* Adds such secrets. They stay for as long as the vault, and are not part of what the API shows and
 * changes. -EINVAL for a name that exists. */
int vault_add_env(struct vault *v, const struct vault_secret_env *rows, size_t count,
                  const struct vault_host *h, struct err *e);
enum { VAULT_PLACEHOLDER_BYTES = 40 };
/* The name of the variable of a binding with `env`. */
struct str vault_env_name(const struct vault_binding *b);
#define VAULT_PLACEHOLDER_PREFIX "osb_secret_"
/* A random one: "osb_secret_" and letters; a C string. */
int vault_placeholder(char out[static VAULT_PLACEHOLDER_BYTES], struct err *e);

/* Puts a set (taken) into a vault that has none, as it was stored. -EINVAL, -ENOMEM. */
int vault_adopt(struct vault *v, struct vault_set *s, struct err *e);

/* -EINVAL with a text when h->host_allowed refuses a host of a binding: asked before each change of
 * the policy. */
int vault_policy_check(const struct vault *v, const struct vault_host *h, struct err *e);

/* Collects the body of a request in locked memory and calls `act`, which replies; the body is gone
 * afterwards. The row has ROUTE_STREAM_BODY. */
typedef void vault_act_fn(struct http_req *req, struct str body, void *user);
void vault_collect(struct http_req *req, vault_act_fn *act, void *user);

/* Answers a request for /credential-vault and below: `path` is its decoded path, `body` what
 * vault_collect() gave. The caller has authenticated it. Replies exactly once. */
void vault_serve(struct vault *v, const struct vault_host *h, struct http_req *req, struct str path,
                 struct str body);
