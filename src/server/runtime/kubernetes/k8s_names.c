#include "server/runtime/kubernetes/k8s_names.h"

#include <stdio.h>

#include "base/sha.h"

enum { HASH_DIGITS = 8, SNAPSHOT_DIGITS = 32 };

/* The first `digits` hexadecimal digits of SHA-256(text). */
static void hash_text(struct str text, size_t digits, char *out)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t hash[SHA256_BYTES];

    sha256_of(text, hash);
    for (size_t i = 0; i < digits; i++)
        out[i] = hex[i % 2 ? hash[i / 2] & 15 : hash[i / 2] >> 4];
    out[digits] = '\0';
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || ascii_is_digit(c);
}

void k8s_label_name(struct str id, char out[K8S_LABEL_MAX])
{
    static const struct str prefix = STR_INIT("sandbox-");
    char text[4 * K8S_NAME_MAX], hash[HASH_DIGITS + 1];
    size_t n = 0, keep = K8S_LABEL_MAX - 1 - HASH_DIGITS - 1;

    for (size_t i = 0; i < id.n && n < sizeof(text) - prefix.n - 1; i++) {
        char c = ascii_lower(id.p[i]);

        if (is_name_char(c))
            text[n++] = c;
        else if (n > 0 && text[n - 1] != '-')
            text[n++] = '-';
    }
    while (n > 0 && text[n - 1] == '-')
        n--;
    if (n == 0 || !ascii_is_alpha(text[0])) {
        memmove(text + prefix.n, text, n);
        memcpy(text, prefix.p, prefix.n);
        n += prefix.n;
        while (text[n - 1] == '-')
            n--;
    }
    if (n < K8S_LABEL_MAX) {
        memcpy(out, text, n);
        out[n] = '\0';
        return;
    }
    hash_text(id, HASH_DIGITS, hash);
    while (text[keep - 1] == '-')
        keep--;
    (void)snprintf(out, K8S_LABEL_MAX, "%.*s-%s", (int)keep, text, hash);
}

/* Takes the digits of a UUID. */
static bool uuid_digits(struct str id, char out[SNAPSHOT_DIGITS + 1])
{
    size_t n = 0;

    for (size_t i = 0; i < id.n; i++) {
        if (id.p[i] == '-')
            continue;
        if (ascii_hex_value(id.p[i]) < 0 || n == SNAPSHOT_DIGITS)
            return false;
        out[n++] = ascii_lower(id.p[i]);
    }
    out[n] = '\0';
    return n == SNAPSHOT_DIGITS;
}

void k8s_snapshot_name(struct str snapshot_id, char out[K8S_LABEL_MAX])
{
    char digits[SNAPSHOT_DIGITS + 1];

    if (!uuid_digits(snapshot_id, digits))
        hash_text(snapshot_id, SNAPSHOT_DIGITS, digits);
    (void)snprintf(out, K8S_LABEL_MAX, "osb-snap-%s", digits);
}

void k8s_secret_name(struct str id, char out[K8S_NAME_MAX])
{
    (void)snprintf(out, K8S_NAME_MAX, "opensandbox-image-auth-%.*s", STR_ARG(id));
}

struct str k8s_registry_of(struct str image)
{
    size_t slash = str_find(image, '/');
    struct str host = str_make(image.p, slash);

    if (slash < image.n && (str_find(host, '.') < host.n || str_find(host, ':') < host.n ||
                            str_eq(host, STR("localhost"))))
        return host;
    return STR("https://index.docker.io/v1/");
}
