/* vault_set.h - one revision of a vault: credentials, bindings, and what follows from them.
 *
 * Immutable once made, counted by references: a request keeps the set it was judged by until its
 * response is over. All of it is in locked memory, overwritten when the last reference goes. Loop
 * thread only. */
#pragma once

#include "base/json_write.h"
#include "egress/vault/rewrite.h"

enum {
    VAULT_BYTES_MAX = 8 << 20, /* of one revision */
    VAULT_CREDENTIALS_MAX = 256,
    VAULT_BINDINGS_MAX = 256,
    VAULT_LIST_MAX = 64,          /* entries of one list of a match, headers, substitutions */
    VAULT_NAME_BYTES_MAX = 253,   /* of a credential or a binding */
    VAULT_VALUE_BYTES_MAX = 8192, /* of a credential: a head has room for it */
    VAULT_BODY_SECRET_MIN = 8,    /* shorter ones occur in bodies by chance, and are not redacted */
    VAULT_LOST_MAX = 1024,
};

struct vault_list {
    struct str *rows;
    size_t count;
};

struct vault_credential {
    struct str name, value;
    uint64_t revision; /* that added or last replaced it */
    bool env;          /* of vault_add_env: not part of what the API shows and changes */
};

/* As shown to clients: normalised, with all defaults. */
struct vault_match {
    struct vault_list schemes, hosts, methods, paths;
    uint16_t *ports;
    size_t port_count;
};

enum vault_auth {
    VAULT_BEARER,
    VAULT_BASIC,
    VAULT_API_KEY,
    VAULT_CUSTOM_HEADERS,
    VAULT_PASSTHROUGH
};

struct vault_header {
    struct str name, credential;
    struct str value; /* as sent: "Bearer ..." */
};

enum vault_surface {
    VAULT_IN_PATH = 1 << 0,
    VAULT_IN_QUERY = 1 << 1,
    VAULT_IN_HEADER = 1 << 2,
    VAULT_IN_BODY = 1 << 3,
    VAULT_IN_ALL = (1 << 4) - 1,
};

struct vault_substitution {
    struct str credential, placeholder;
    unsigned in; /* enum vault_surface */
    struct str value;
    /* The value as the surface needs it. */
    struct str in_url, in_json;
};

struct vault_binding {
    struct str name;
    struct vault_match match;
    enum vault_auth auth;
    struct vault_header *headers;
    size_t header_count;
    struct vault_substitution *substitutions;
    size_t substitution_count;
    /* Of vault_add_env: its placeholders must not go to other hosts. It adds to any other binding,
     * and is not part of what the API shows and changes. */
    bool env;
    /* Of its substitutions, by surface; NULL without any. */
    struct rewrite *rewrite_path, *rewrite_query, *rewrite_header;
    struct rewrite *rewrite_json, *rewrite_form, *rewrite_text;
};

/* A placeholder whose value did not outlive the process: requests that carry it are refused. */
#define VAULT_LOST_ANY "*" /* a name: of all variables, whose placeholders begin alike */
struct vault_lost {
    struct str name; /* of the variable; empty: of a binding, and refused to `hosts` only */
    struct str placeholder;
    struct vault_list hosts;
};

struct vault_set {
    unsigned refs;
    bool created; /* by the API; otherwise it has secrets of the environment only, or lost ones */
    bool lost_created;                    /* by the API, and lost; never with `created` */
    uint64_t revision;                    /* of the API; 0 unless created */
    struct secret_arena memory;           /* of all below */
    struct vault_credential *credentials; /* sorted by name, as bindings */
    size_t credential_count;
    struct vault_binding *bindings;
    size_t binding_count;
    struct vault_lost *lost;
    size_t lost_count;
    struct rewrite *redact_headers; /* secrets become [REDACTED] */
    struct rewrite *redact_bodies;  /* the same without a change of length */
    /* Placeholders of env bindings, tag: index of the binding; then those of `lost`, tag:
     * binding_count and the index. */
    struct rewrite *guards;
};

struct vault_set *vault_set_new(void); /* one reference; NULL: no locked memory */
struct vault_set *vault_set_ref(struct vault_set *s);
void vault_set_unref(struct vault_set *s); /* NULL is fine */

/* Checks the whole (references, names, ambiguity) and makes what is derived. After it the set is
 * immutable. -EINVAL with a text for the client, which never holds a value. -ENOMEM. */
int vault_set_finish(struct vault_set *s, struct err *e);

struct vault_credential *vault_set_credential(const struct vault_set *s, struct str name);
struct vault_binding *vault_set_binding(const struct vault_set *s, struct str name);

/* Deep copies into the memory of another set. -ENOMEM. */
int vault_binding_copy(struct vault_set *to, const struct vault_binding *from,
                       struct vault_binding *ret);
/* Adds a copy of a lost placeholder. -ENOMEM, -ENOSPC. */
int vault_set_add_lost(struct vault_set *s, const struct vault_lost *lost);

/* --- matching --- */

struct vault_request {
    struct str scheme; /* "https" */
    uint16_t port;
    struct str host;   /* lower case, without a dot at its end */
    struct str method; /* in any case */
    struct str path;   /* normalised, without the query */
};

enum vault_verdict { VAULT_NO_MATCH, VAULT_MATCH, VAULT_AMBIGUOUS };

/* The binding for a request: one with the exact host before those with a wildcard. */
enum vault_verdict vault_set_match(const struct vault_set *s, const struct vault_request *r,
                                   const struct vault_binding **ret);
/* The env binding at or after *at for an https request to this host; NULL: no more. */
const struct vault_binding *vault_set_next_env(const struct vault_set *s, struct str host,
                                               size_t *at);
/* Whether any binding names this host, whatever the rest of its match says. */
bool vault_set_knows_host(const struct vault_set *s, struct str host);
/* Whether a pattern ("api.x", "*.x") covers the host; 2 = exactly, 1 = by wildcard, 0 = no. */
int vault_host_covers(struct str pattern, struct str host);
/* Whether two bindings may match one request with equal precedence. */
bool vault_bindings_conflict(const struct vault_binding *a, const struct vault_binding *b);

/* Whether a server may resolve this path to another than it looks like: dot segments, also behind
 * encoded slashes, backslashes, double encoding or path parameters. */
bool vault_path_is_devious(struct str path);

/* --- as JSON; never with a value --- */

void vault_write_state(struct json_writer *w, const struct vault_set *s);
void vault_write_credential(struct json_writer *w, const struct vault_credential *c);
void vault_write_binding(struct json_writer *w, const struct vault_set *s,
                         const struct vault_binding *b);
void vault_write_credentials(struct json_writer *w, const struct vault_set *s);
void vault_write_bindings(struct json_writer *w, const struct vault_set *s);
/* Parts of a file. */
struct str vault_auth_name(enum vault_auth auth);
void vault_write_match(struct json_writer *w, const struct vault_match *m); /* with its key */
void vault_write_substitution(struct json_writer *w, const struct vault_substitution *sub);
