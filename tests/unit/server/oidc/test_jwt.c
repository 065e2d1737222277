#include "server/oidc/jwt.h"

#include "signer.h"

enum { NOW = 1800000000 };

static struct arena a;
static struct jwt token;

/* Its signature is of no importance here. */
static int parse_parts(const char *header, const char *claims)
{
    return jwt_parse(&a,
                     str_of(arena_printf(&a, "%s.%s.AAAA", b64(&a, header, strlen(header)),
                                         b64(&a, claims, strlen(claims)))),
                     &token, NULL);
}

static int parse_header(const char *header)
{
    return parse_parts(header, "{}");
}

TEST(jwt, says_algorithm_and_key)
{
    arena_init(&a, 1 << 20);
    CHECK_EQ(parse_parts("{\"alg\":\"EdDSA\",\"kid\":\"k\",\"typ\":\"JWT\"}", "{\"sub\":\"s\"}"),
             0);
    CHECK_EQ(token.alg, JWT_EDDSA);
    CHECK_SPAN(token.kid, "k");
    CHECK_EQ(token.signature.n, 3);
    CHECK_EQ(parse_header("{\"alg\":\"RS256\"}"), 0);
    CHECK_SPAN(token.kid, "");
    arena_done(&a);
}

TEST(jwt, refuses_other_algorithms_and_extensions)
{
    const char *const wrong[] = {
        "{\"alg\":\"none\"}",
        "{\"alg\":\"None\"}",
        "{\"alg\":\"HS256\"}",
        "{\"alg\":\"HS512\"}",
        "{\"alg\":\"RS512\"}",
        "{\"alg\":\"rs256\"}",
        "{\"alg\":[\"RS256\"]}",
        "{\"alg\":\"\"}",
        "{}",
        "[]",
        "\"RS256\"",
        "{\"alg\":\"RS256\",\"alg\":\"none\"}",
        "{\"alg\":\"RS256\",\"crit\":[\"exp\"]}",
        "{\"alg\":\"RS256\",\"b64\":false}",
        "{\"alg\":\"RS256\",\"kid\":7}",
    };

    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        CHECK_EQ(parse_header(wrong[i]), -EBADMSG);
    arena_done(&a);
}

TEST(jwt, refuses_what_is_no_token)
{
    static char huge[JWT_BYTES_MAX + 1];
    const char *const wrong[] = {
        "",         ".",         "..",        "a.b",           "a.b.c.d",
        "e30.e30.", "e30..AAAA", ".e30.AAAA", "e30=.e30.AAAA", "e30.e30.A A"};

    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        CHECK_EQ(jwt_parse(&a, str_of(wrong[i]), &token, NULL), -EBADMSG);
    memset(huge, 'A', sizeof(huge));
    CHECK_EQ(jwt_parse(&a, str_make(huge, sizeof(huge)), &token, NULL), -EMSGSIZE);
    arena_done(&a);
}

/* --- claims --- */

static const struct jwt_rules rules = {
    .issuer = STR_INIT("https://idp.example"),
    .audience = STR_INIT("client"),
    .nonce = STR_INIT("n-1"),
    .is_id_token = true,
    .now_s = NOW,
};

static int check(const char *claims)
{
    CHECK_EQ(parse_parts("{\"alg\":\"RS256\"}", claims), 0);
    return jwt_check(&token, &rules, NULL);
}

#define BASE(iss, aud, nonce)                                                                      \
    "{\"sub\":\"s\",\"iss\":\"" iss "\",\"aud\":" aud ",\"nonce\":\"" nonce "\""
#define RIGHT BASE("https://idp.example", "\"client\"", "n-1")

static int check_times(const char *times)
{
    return check(arena_printf(&a, RIGHT ",%s}", times));
}

TEST(jwt, takes_claims_that_are_right)
{
    arena_init(&a, 1 << 20);
    CHECK_EQ(check_times("\"exp\":1800000100,\"iat\":1799999990"), 0);
    CHECK_EQ(check_times("\"exp\":1800000100.5,\"iat\":1799999990,\"nbf\":1799999990"), 0);
    /* within the difference that clocks may have */
    CHECK_EQ(check_times("\"exp\":1799999941,\"iat\":1800000060,\"nbf\":1800000060"), 0);
    CHECK_EQ(check(BASE("https://idp.example", "[\"x\",\"client\"]",
                        "n-1") ",\"azp\":\"client\",\"exp\":1800000100,\"iat\":1799999990}"),
             0);
    arena_done(&a);
}

TEST(jwt, refuses_times_that_are_wrong)
{
    const char *const wrong[] = {
        "\"exp\":1799999940,\"iat\":1799999000",                    /* expired */
        "\"exp\":1800000100,\"iat\":1800000061",                    /* of the future */
        "\"exp\":1800000100,\"iat\":1799999990,\"nbf\":1800000061", /* not yet */
        "\"iat\":1799999990",                                       /* for ever */
        "\"exp\":1800000100",                                       /* since when? */
        "\"exp\":\"1800000100\",\"iat\":1799999990",
        "\"exp\":1e300,\"iat\":1799999990",
        "\"exp\":-1,\"iat\":1799999990",
        "\"exp\":null,\"iat\":1799999990",
        "\"exp\":1800000100,\"iat\":1799999990,\"nbf\":\"x\"",
    };

    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        CHECK_EQ(check_times(wrong[i]), -EACCES);
    arena_done(&a);
}

TEST(jwt, refuses_other_issuers_audiences_and_sign_ins)
{
#define TIMES ",\"exp\":1800000100,\"iat\":1799999990}"
    const char *const wrong[] = {
        BASE("https://idp.example/", "\"client\"", "n-1") TIMES,
        BASE("https://evil.example", "\"client\"", "n-1") TIMES,
        BASE("https://idp.example", "\"other\"", "n-1") TIMES,
        BASE("https://idp.example", "[]", "n-1") TIMES,
        BASE("https://idp.example", "null", "n-1") TIMES,
        BASE("https://idp.example", "{\"client\":1}", "n-1") TIMES,
        BASE("https://idp.example", "[\"x\",\"client\"]", "n-1") TIMES, /* azp must say it */
        BASE("https://idp.example", "\"client\"", "n-1") ",\"azp\":\"other\"" TIMES,
        BASE("https://idp.example", "\"client\"", "n-2") TIMES,
        BASE("https://idp.example", "\"client\"", "") TIMES,
        "{\"iss\":\"https://idp.example\",\"aud\":\"client\",\"nonce\":\"n-1\"" TIMES, /* sub */
        "{\"sub\":\"s\",\"iss\":\"https://idp.example\",\"aud\":\"client\"" TIMES,     /* nonce */
        "{\"sub\":\"\",\"iss\":\"https://idp.example\",\"aud\":\"client\",\"nonce\":\"n-1\"" TIMES,
    };

    arena_init(&a, 1 << 20);
    CHECK_EQ(check(RIGHT TIMES), 0);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        CHECK_EQ(check(wrong[i]), -EACCES);
    arena_done(&a);
}
