/* oidc_internal.h - what oidc.c and oidc_sign_in.c share. */
#pragma once

#include "base/list.h"
#include "net/tls.h"
#include "server/oidc/fetch.h"
#include "server/oidc/jwks.h"
#include "server/oidc/metadata.h"
#include "server/oidc/oidc.h"

/* Waits until the documents are there. */
struct oidc_wait {
    struct list link;
    void (*run)(struct oidc_wait *w, const struct err *e); /* e: NULL = they are there */
};

struct oidc {
    struct oidc_conf conf;
    struct image_web *web;
    struct tls_client *tls;
    struct sessions *sessions;
    struct sessions *codes; /* of command lines, until they are redeemed */
    struct buf secret;      /* of the client; empty: it has none */
    unsigned char login_key[LOGIN_KEY_BYTES];
    struct list sign_ins; /* under way */
    size_t sign_in_count;

    /* Documents: those that are known, and those that are being read. */
    struct arena texts, next_texts;
    struct metadata metadata, next_metadata;
    struct jwks keys, next_keys;
    uint64_t read_ns, tried_ns; /* when; 0 = never */
    bool known, reading;
    struct fetch fetch;
    struct list waits;
};

int64_t oidc_now_s(void);
struct fetch_spec oidc_fetch_spec(const struct oidc *o, struct str url);

/* Runs `w` when documents are known and fresh; possibly at once. */
void oidc_when_known(struct oidc *o, struct oidc_wait *w,
                     void (*run)(struct oidc_wait *w, const struct err *e));
/* The same when they were read again, unless that was less than OIDC_RETRY_S ago. */
void oidc_when_read_again(struct oidc *o, struct oidc_wait *w,
                          void (*run)(struct oidc_wait *w, const struct err *e));
/* Checks signature and claims of a token. -ENOENT: its key is not known. */
int oidc_verify(const struct oidc *o, const struct jwt *t, const struct jwt_rules *rules,
                struct err *e) MUST_USE;

void oidc_sign_ins_cancel(struct oidc *o);
