#include "egress/vault/vault_read.h"

#include <errno.h>

#include "base/json_bind.h"

enum {
    VAULT_TEXT_BYTES_MAX = 1 << 20,
    VAULT_NODES_MAX = 64 * 1024,
    VAULT_DEPTH_MAX = 16,
    KEPT_TEXT_BYTES_MAX = 20 << 20, /* of a vault that many requests have filled */
    KEPT_NODES_MAX = 1024 * 1024,
};

/* --- the shape --- */

#define TEXT(name, type, member) JSON_FIELD(name, JSON_AS_STR, JSON_NULLABLE, type, member)
#define STRINGS(name, type, member)                                                                \
    JSON_LIST(name, JSON_AS_ARRAY, JSON_NULLABLE, type, member, .max = VAULT_LIST_MAX,             \
              .element = &string_element)
#define NAMES(name, type, member, most)                                                            \
    JSON_LIST(name, JSON_AS_ARRAY, JSON_NULLABLE, type, member, .max = (most),                     \
              .element = &string_element)
#define OBJECTS(name, type, member, most, row)                                                     \
    JSON_LIST(name, JSON_AS_ARRAY, JSON_NULLABLE, type, member, .max = (most), .element = (row))

static const struct json_field string_element = {.as = JSON_AS_STR};
static const struct json_field port_element = {.as = JSON_AS_U32};

static const struct json_field source_fields[] = {
    TEXT("type", struct vault_in_credential, source.type),
    TEXT("value", struct vault_in_credential, source.value),
};
/* Its rows have offsets in the credential, and so it is bound at offset 0. */
static const struct json_table source_table =
    JSON_TABLE(struct vault_in_credential, source_fields, JSON_STRICT);

static const struct json_field credential_fields[] = {
    TEXT("name", struct vault_in_credential, name),
    {"source", JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &source_table},
};
static const struct json_table credential_table =
    JSON_TABLE(struct vault_in_credential, credential_fields, JSON_STRICT);
static const struct json_field credential_element = {.as = JSON_AS_OBJECT,
                                                     .table = &credential_table};

static const struct json_field match_fields[] = {
    STRINGS("schemes", struct vault_in_binding, match.schemes),
    STRINGS("hosts", struct vault_in_binding, match.hosts),
    STRINGS("methods", struct vault_in_binding, match.methods),
    STRINGS("paths", struct vault_in_binding, match.paths),
    JSON_LIST("ports", JSON_AS_ARRAY, JSON_NULLABLE, struct vault_in_binding, match.ports,
              .max = VAULT_LIST_MAX, .element = &port_element),
};
static const struct json_table match_table =
    JSON_TABLE(struct vault_in_binding, match_fields, JSON_STRICT);

static const struct json_field header_fields[] = {
    TEXT("name", struct vault_in_header, name),
    TEXT("credential", struct vault_in_header, credential),
};
static const struct json_table header_table =
    JSON_TABLE(struct vault_in_header, header_fields, JSON_STRICT);
static const struct json_field header_element = {.as = JSON_AS_OBJECT, .table = &header_table};

static const struct json_field substitution_fields[] = {
    TEXT("credential", struct vault_in_substitution, credential),
    TEXT("placeholder", struct vault_in_substitution, placeholder),
    STRINGS("in", struct vault_in_substitution, in),
};
static const struct json_table substitution_table =
    JSON_TABLE(struct vault_in_substitution, substitution_fields, JSON_STRICT);
static const struct json_field substitution_element = {.as = JSON_AS_OBJECT,
                                                       .table = &substitution_table};

static const struct json_field auth_fields[] = {
    TEXT("type", struct vault_in_binding, auth.type),
    TEXT("credential", struct vault_in_binding, auth.credential),
    TEXT("name", struct vault_in_binding, auth.name),
    OBJECTS("headers", struct vault_in_binding, auth.headers, VAULT_LIST_MAX, &header_element),
    OBJECTS("substitutions", struct vault_in_binding, auth.substitutions, VAULT_LIST_MAX,
            &substitution_element),
};
static const struct json_table auth_table =
    JSON_TABLE(struct vault_in_binding, auth_fields, JSON_STRICT);

static const struct json_field binding_fields[] = {
    TEXT("name", struct vault_in_binding, name),
    {"match", JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &match_table},
    {"auth",  JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &auth_table },
};
static const struct json_table binding_table =
    JSON_TABLE(struct vault_in_binding, binding_fields, JSON_STRICT);
static const struct json_field binding_element = {.as = JSON_AS_OBJECT, .table = &binding_table};

static const struct json_field create_fields[] = {
    OBJECTS("credentials", struct vault_in, credentials.add, VAULT_CREDENTIALS_MAX,
            &credential_element),
    OBJECTS("bindings", struct vault_in, bindings.add, VAULT_BINDINGS_MAX, &binding_element),
};
static const struct json_table create_table =
    JSON_TABLE(struct vault_in, create_fields, JSON_STRICT);

static const struct json_field patch_credentials_fields[] = {
    OBJECTS("add", struct vault_in, credentials.add, VAULT_CREDENTIALS_MAX, &credential_element),
    OBJECTS("replace", struct vault_in, credentials.replace, VAULT_CREDENTIALS_MAX,
            &credential_element),
    NAMES("delete", struct vault_in, credentials.delete, VAULT_CREDENTIALS_MAX),
};
static const struct json_table patch_credentials_table =
    JSON_TABLE(struct vault_in, patch_credentials_fields, JSON_STRICT);

static const struct json_field patch_bindings_fields[] = {
    OBJECTS("add", struct vault_in, bindings.add, VAULT_BINDINGS_MAX, &binding_element),
    OBJECTS("replace", struct vault_in, bindings.replace, VAULT_BINDINGS_MAX, &binding_element),
    NAMES("delete", struct vault_in, bindings.delete, VAULT_BINDINGS_MAX),
};
static const struct json_table patch_bindings_table =
    JSON_TABLE(struct vault_in, patch_bindings_fields, JSON_STRICT);

static const struct json_field patch_fields[] = {
    JSON_FIELD("expectedRevision", JSON_AS_I64, JSON_NULLABLE, struct vault_in, expected_revision,
               .seen_at = JSON_SEEN(struct vault_in, has_expected_revision)),
    {"credentials", JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &patch_credentials_table},
    {"bindings",    JSON_AS_OBJECT, JSON_NULLABLE, 0, .table = &patch_bindings_table   },
};
static const struct json_table patch_table = JSON_TABLE(struct vault_in, patch_fields, JSON_STRICT);

static int read_as(struct arena *a, struct str text, const struct json_table *table,
                   struct vault_in *ret, struct err *e)
{
    static const struct json_limits limits = {.text_bytes_max = VAULT_TEXT_BYTES_MAX,
                                              .nodes_max = VAULT_NODES_MAX,
                                              .depth_max = VAULT_DEPTH_MAX,
                                              .first_only = true};
    struct vault_in in = {0};
    struct json *root;
    int r = json_parse(a, text, &limits, &root, e);

    if (r == 0)
        r = json_bind(a, root, table, &in, e);
    if (r < 0)
        return r == -ENOMEM ? r : err_wrap(e, -EINVAL, "invalid credential vault request");
    *ret = in;
    return 0;
}

int vault_read_create(struct arena *a, struct str text, struct vault_in *ret, struct err *e)
{
    return read_as(a, text, &create_table, ret, e);
}

int vault_read_patch(struct arena *a, struct str text, struct vault_in *ret, struct err *e)
{
    return read_as(a, text, &patch_table, ret, e);
}

/* --- of a file --- */

#define FLAG(name, type, member)   JSON_FIELD(name, JSON_AS_BOOL, 0, type, member)
#define NUMBER(name, type, member) JSON_FIELD(name, JSON_AS_U64, 0, type, member)

static const struct json_field lost_fields[] = {
    TEXT("name", struct vault_kept_lost, name),
    TEXT("placeholder", struct vault_kept_lost, placeholder),
    STRINGS("hosts", struct vault_kept_lost, hosts),
};
static const struct json_table lost_table =
    JSON_TABLE(struct vault_kept_lost, lost_fields, JSON_STRICT);
static const struct json_field lost_element = {.as = JSON_AS_OBJECT, .table = &lost_table};

static const struct json_field head_fields[] = {
    NUMBER("version", struct vault_kept_head, version),
    FLAG("sealed", struct vault_kept_head, sealed),
    FLAG("created", struct vault_kept_head, created),
    NUMBER("revision", struct vault_kept_head, revision),
    OBJECTS("lost", struct vault_kept_head, lost, VAULT_LOST_MAX, &lost_element),
};
static const struct json_table head_table =
    JSON_TABLE(struct vault_kept_head, head_fields, JSON_STRICT);

static const struct json_field kept_credential_fields[] = {
    TEXT("name", struct vault_kept_credential, in.name),
    TEXT("value", struct vault_kept_credential, in.source.value),
    NUMBER("revision", struct vault_kept_credential, revision),
    FLAG("env", struct vault_kept_credential, env),
};
static const struct json_table kept_credential_table =
    JSON_TABLE(struct vault_kept_credential, kept_credential_fields, JSON_STRICT);
static const struct json_field kept_credential_element = {.as = JSON_AS_OBJECT,
                                                          .table = &kept_credential_table};

static const struct json_field kept_binding_fields[] = {
    TEXT("name", struct vault_kept_binding, in.name),
    FLAG("env", struct vault_kept_binding, env),
    {"match", JSON_AS_OBJECT, 0, 0, .table = &match_table},
    {"auth",  JSON_AS_OBJECT, 0, 0, .table = &auth_table },
};
static const struct json_table kept_binding_table =
    JSON_TABLE(struct vault_kept_binding, kept_binding_fields, JSON_STRICT);
static const struct json_field kept_binding_element = {.as = JSON_AS_OBJECT,
                                                       .table = &kept_binding_table};

static const struct json_field values_fields[] = {
    FLAG("created", struct vault_kept_values, created),
    FLAG("lostCreated", struct vault_kept_values, lost_created),
    NUMBER("revision", struct vault_kept_values, revision),
    OBJECTS("credentials", struct vault_kept_values, credentials, VAULT_CREDENTIALS_MAX,
            &kept_credential_element),
    OBJECTS("bindings", struct vault_kept_values, bindings, VAULT_BINDINGS_MAX,
            &kept_binding_element),
    OBJECTS("lost", struct vault_kept_values, lost, VAULT_LOST_MAX, &lost_element),
};
static const struct json_table values_table =
    JSON_TABLE(struct vault_kept_values, values_fields, JSON_STRICT);

static int read_kept(struct arena *a, struct str text, const struct json_table *table, void *ret,
                     struct err *e)
{
    static const struct json_limits limits = {.text_bytes_max = KEPT_TEXT_BYTES_MAX,
                                              .nodes_max = KEPT_NODES_MAX,
                                              .depth_max = VAULT_DEPTH_MAX};
    struct json *root;
    int r = json_parse(a, text, &limits, &root, e);

    return r < 0 ? r : json_bind(a, root, table, ret, e);
}

int vault_read_kept_head(struct arena *a, struct str text, struct vault_kept_head *ret,
                         struct err *e)
{
    struct vault_kept_head head = {0};
    int r = read_kept(a, text, &head_table, &head, e);

    if (r == 0 && head.version != VAULT_KEPT_VERSION)
        r = err_set(e, EINVAL, "it is of another version");
    for (size_t i = 0; r == 0 && i < head.lost_count; i++)
        if (head.lost[i].placeholder.n == 0)
            r = err_set(e, EINVAL, "a placeholder is empty");
    if (r == 0)
        *ret = head;
    return r;
}

int vault_read_kept_values(struct arena *a, struct str text, struct vault_kept_values *ret,
                           struct err *e)
{
    return read_kept(a, text, &values_table, ret, e);
}
