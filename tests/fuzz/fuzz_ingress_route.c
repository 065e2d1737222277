/* The text is a label, a path, a host, keys and a list of networks in turn. */
#include <errno.h>

#include "api/signed.h"
#include "fuzz.h"
#include "ingress/access.h"
#include "ingress/limits.h"
#include "ingress/route.h"

static bool lies_in(struct str piece, struct str whole)
{
    return piece.n == 0 || (piece.p >= whole.p && piece.p + piece.n <= whole.p + whole.n);
}

static void check_route(const struct route *r, struct str text)
{
    FUZZ_CHECK(r->id.n > 0 && r->id.n <= ROUTE_ID_MAX && r->port > 0);
    FUZZ_CHECK(lies_in(r->id, text) && lies_in(r->rest, text) && lies_in(r->rest_unsigned, text));
    FUZZ_CHECK(lies_in(r->signature, text));
    FUZZ_CHECK(!r->is_signed || r->signature.n == API_SIGNATURE_MAX - 1);
}

static void check_label(struct str text)
{
    struct route r;
    const char *why = NULL;

    if (route_parse_label(text, &r, &why) < 0)
        FUZZ_CHECK(why);
    else
        check_route(&r, text);
}

static void check_path(struct str text)
{
    AUTO_BUF(clean, 1 << 20);
    AUTO_BUF(again, 1 << 20);
    AUTO_BUF(hidden, 1 << 20);
    struct route r;
    const char *why = NULL;
    int changed = route_clean_path(text, &clean);

    FUZZ_CHECK(changed == 0 || changed == 1);
    if (changed)
        FUZZ_CHECK(route_clean_path(buf_str(&clean), &again) == 0 && clean.n <= text.n);
    if (route_parse_path(text, &r, &why) < 0) {
        FUZZ_CHECK(why);
        return;
    }
    check_route(&r, text);
    FUZZ_CHECK(r.rest.n == 0 || r.rest.p[0] == '/');
    FUZZ_CHECK(r.rest.n <= r.rest_unsigned.n);
    FUZZ_CHECK(route_redact(text, STR_NONE, true, &hidden) == 0);
    if (r.is_signed) {
        size_t at = (size_t)(r.signature.p - text.p);

        FUZZ_CHECK(hidden.n + r.signature.n == text.n + 3);
        FUZZ_CHECK(str_starts(str_skip(buf_str(&hidden), at), STR("***")));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);
    static struct access_keys keys;
    struct limits_nets nets;
    char label[ROUTE_DNS_MAX];

    if (size > 64 * 1024)
        return 0;
    check_label(text);
    check_path(text);
    if (access_keys_parse(text, &keys, NULL) < 0)
        FUZZ_CHECK(keys.count == 0);
    FUZZ_CHECK(keys.count <= ACCESS_KEYS_MAX);
    (void)limits_nets_parse(text, &nets, NULL);
    route_dns_label(text, label);
    FUZZ_CHECK(strlen(label) > 0 && strlen(label) <= 63 && label[strlen(label) - 1] != '-');
    FUZZ_CHECK(ascii_is_alpha(label[0]));
    return 0;
}
