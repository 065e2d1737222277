/* The first byte chooses among the readers of queries, ports, amounts and route tokens; the rest is
 * their text. */
#include "api/lifecycle.h"
#include "fuzz.h"

enum { ROOM = 1 << 20 };

static void check_fail(const struct api_fail *f)
{
    FUZZ_CHECK((f->status == 400 || f->status == 413) && f->code && f->message[0]);
}

static void check_list(struct arena *a, struct str text, struct api_fail *f)
{
    struct api_list_query q;

    if (api_list_query_parse(a, text, &q, f) < 0) {
        check_fail(f);
        return;
    }
    FUZZ_CHECK(q.page >= 1 && q.page_size >= 1 && q.page_size <= API_PAGE_SIZE_MAX);
    FUZZ_CHECK(q.states < STATE_BIT(SANDBOX_STATE_COUNT));
    FUZZ_CHECK(q.metadata_count <= API_METADATA_MAX);
    for (size_t i = 0; i < q.metadata_count; i++)
        for (size_t j = 0; j < i; j++)
            FUZZ_CHECK(!str_eq(q.metadata[i].key, q.metadata[j].key));
}

static void check_endpoint(struct arena *a, struct str text, struct api_fail *f)
{
    struct api_endpoint_query q;

    if (api_endpoint_query_parse(a, text, &q, f) < 0)
        check_fail(f);
    else
        FUZZ_CHECK(!(q.use_server_proxy && q.signed_route));
}

static void check_snapshots(struct arena *a, struct str text, struct api_fail *f)
{
    struct api_snapshot_query q;

    if (api_snapshot_query_parse(a, text, &q, f) < 0)
        check_fail(f);
    else
        FUZZ_CHECK(q.page >= 1 && q.page_size >= 1 && q.page_size <= API_PAGE_SIZE_MAX);
}

static void check_diag(struct arena *a, struct str text, struct api_fail *f)
{
    for (int kind = API_DIAG_LOGS; kind <= API_DIAG_SUMMARY; kind++) {
        struct api_diag_query q;

        if (api_diag_query_parse(a, text, (enum api_diag_kind)kind, &q, f) < 0) {
            check_fail(f);
            continue;
        }
        FUZZ_CHECK(q.tail >= 1 && q.tail <= 10000 && q.limit >= 1 && q.limit <= 500);
        FUZZ_CHECK(q.since_s >= 0);
    }
}

static void check_words(struct arena *a, struct str text, struct api_fail *f)
{
    uint64_t bytes = 1;
    uint32_t millicores = 1;
    int32_t gpus = 1;
    uint16_t port = 1;

    if (api_port_parse(text, &port, f) < 0)
        check_fail(f);
    FUZZ_CHECK(api_bytes_parse(text, &bytes) <= 0 && bytes >= 1 && bytes <= INT64_MAX);
    FUZZ_CHECK(api_millicores_parse(text, &millicores) <= 0 && millicores >= 1);
    FUZZ_CHECK(api_gpus_parse(text, &gpus) <= 0 && (gpus >= 1 || gpus == -1));
    FUZZ_CHECK(port >= 1);
}

/* A token that parses is the one its parts make, but for the signature; signed, it opens. */
static void check_route(struct arena *a, struct str text, struct api_fail *f)
{
    char signature[API_SIGNATURE_MAX];
    struct api_route route, again;
    char *token;

    if (api_route_parse(text, &route) < 0)
        return;
    api_route_sign(STR("secret"), route.key_id, route.sandbox_id, route.port, route.expires_s,
                   signature);
    token = arena_printf(a, "%.*s%s", (int)(text.n - (API_SIGNATURE_MAX - 1)), text.p, signature);
    FUZZ_CHECK(token);
    if (route.expires_s > 0 && str_find(text, '\0') == text.n)
        FUZZ_CHECK(api_route_verify(STR("secret"), route.key_id, str_of(token), 0, &again) == 0 &&
                   str_eq(again.sandbox_id, route.sandbox_id) && again.port == route.port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(struct arena * a, struct str text, struct api_fail * f) = {
        check_list, check_endpoint, check_snapshots, check_diag, check_words, check_route,
    };
    AUTO_ARENA(a, ROOM);
    struct api_fail f = {0};

    if (size == 0)
        return 0;
    checks[data[0] % ARRAY_LEN(checks)](&a, str_make((const char *)data + 1, size - 1), &f);
    return 0;
}
