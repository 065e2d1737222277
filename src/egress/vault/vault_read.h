/* vault_read.h - bodies of vault requests: JSON to the parts of a set, normalised and checked one
 * by one. What concerns the whole is vault_set_finish(). Pure: bytes in, result out. */
#pragma once

#include "base/arena.h"
#include "egress/vault/vault_set.h"

struct vault_in_credential {
    struct str name;
    struct {
        struct str type, value;
    } source;
};

struct vault_in_list {
    struct str *rows;
    size_t rows_count;
};

struct vault_in_header {
    struct str name, credential;
};

struct vault_in_substitution {
    struct str credential, placeholder;
    struct str *in;
    size_t in_count;
};

struct vault_in_binding {
    struct str name;
    struct {
        struct str *schemes, *hosts, *methods, *paths;
        size_t schemes_count, hosts_count, methods_count, paths_count;
        uint32_t *ports;
        size_t ports_count;
    } match;
    struct {
        struct str type, credential, name;
        struct vault_in_header *headers;
        size_t headers_count;
        struct vault_in_substitution *substitutions;
        size_t substitutions_count;
    } auth;
};

struct vault_in_credentials { /* of a PATCH; a POST has only add */
    struct vault_in_credential *add, *replace;
    size_t add_count, replace_count;
    struct str *delete;
    size_t delete_count;
};

struct vault_in_bindings {
    struct vault_in_binding *add, *replace;
    size_t add_count, replace_count;
    struct str *delete;
    size_t delete_count;
};

struct vault_in {
    struct vault_in_credentials credentials;
    struct vault_in_bindings bindings;
    int64_t expected_revision;
    bool has_expected_revision;
};

/* Everything in *ret borrows from the arena, which the caller overwrites (arena_wipe). -EINVAL with
 * a text for the client. */
int vault_read_create(struct arena *a, struct str text, struct vault_in *ret, struct err *e);
int vault_read_patch(struct arena *a, struct str text, struct vault_in *ret, struct err *e);

/* --- of a file (vault_keep.h) --- */

enum { VAULT_KEPT_VERSION = 1 };

struct vault_kept_lost {
    struct str name, placeholder;
    struct str *hosts;
    size_t hosts_count;
};

struct vault_kept_head {
    uint64_t version, revision;
    bool sealed, created;
    struct vault_kept_lost *lost;
    size_t lost_count;
};

struct vault_kept_credential {
    struct vault_in_credential in; /* first, as below: its tables have offsets in it */
    uint64_t revision;
    bool env;
};

struct vault_kept_binding {
    struct vault_in_binding in;
    bool env;
};

struct vault_kept_values {
    bool created, lost_created;
    uint64_t revision;
    struct vault_kept_credential *credentials;
    size_t credentials_count;
    struct vault_kept_binding *bindings;
    size_t bindings_count;
    struct vault_kept_lost *lost;
    size_t lost_count;
};

/* As above. */
int vault_read_kept_head(struct arena *a, struct str text, struct vault_kept_head *ret,
                         struct err *e);
int vault_read_kept_values(struct arena *a, struct str text, struct vault_kept_values *ret,
                           struct err *e);

/* Check, normalise and copy into the set's memory. -EINVAL with a text, -ENOMEM. */
int vault_take_credential(struct vault_set *s, const struct vault_in_credential *in,
                          struct vault_credential *ret, struct err *e);
int vault_take_binding(struct vault_set *s, const struct vault_in_binding *in,
                       struct vault_binding *ret, struct err *e);
