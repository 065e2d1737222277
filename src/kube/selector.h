/* selector.h - label selectors: the server's whole grammar, and matchLabels/matchExpressions.
 *
 *   "app=web,tier in (a, b),env notin (x),gpu,!spot,size>3" */
#pragma once

#include "base/buf.h"
#include "base/json.h"

enum kube_operator {
    KUBE_IN,     /* also = and == */
    KUBE_NOT_IN, /* also != ; matches objects without the label */
    KUBE_EXISTS,
    KUBE_NOT_EXISTS,
    KUBE_GREATER, /* integers */
    KUBE_LESS,
};

struct kube_requirement {
    struct str key;
    enum kube_operator op;
    struct str *values;
    size_t value_count;
};

enum { KUBE_REQUIREMENTS_MAX = 64, KUBE_SELECTOR_VALUES_MAX = 256 };

struct kube_selector {
    struct kube_requirement *rows;
    size_t count; /* 0 matches everything */
};

/* Both copy into the arena. -EINVAL and what was expected for text that is no selector. */
int kube_selector_parse(struct arena *a, struct str text, struct kube_selector *ret, struct err *e);
/* {"matchLabels":{...},"matchExpressions":[{"key","operator","values"}]}; also the operators Gt
 * and Lt of node affinity. NULL and null match everything. */
int kube_selector_of(struct arena *a, const struct json *v, struct kube_selector *ret,
                     struct err *e);
/* `labels`: an object of strings, or NULL. */
bool kube_selector_matches(const struct kube_selector *s, const struct json *labels);
int kube_selector_write(const struct kube_selector *s, struct buf *out);

/* What the server accepts: "prefix.example/name" and values of at most 63 characters. */
bool kube_label_key_is_valid(struct str key);
bool kube_label_value_is_valid(struct str value);
/* RFC 1123: at most 63 characters of a-z, 0-9 and '-'; a subdomain also has dots, at most 253. */
bool kube_is_dns_label(struct str s);
bool kube_is_dns_subdomain(struct str s);
