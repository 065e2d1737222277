/* fuzz_rfc3339.c - what parses as a time prints, and parses again to the same; lenient takes all
 * that strict takes. */
#include "base/time.h"

#include "fuzz.h"

static void check_print(int64_t us)
{
    char text[TIME_TEXT_MAX];
    size_t n = time_format(us, text);
    int64_t again;

    FUZZ_CHECK(us >= TIME_MIN_US && us <= TIME_MAX_US);
    FUZZ_CHECK(n == strlen(text) && n < TIME_TEXT_MAX);
    FUZZ_CHECK(time_parse(str_make(text, n), &again, NULL) == 0);
    FUZZ_CHECK(again == us);
}

static void check_http(int64_t us)
{
    char text[TIME_HTTP_MAX];
    size_t n = time_format_http(us, text);
    int64_t again;

    FUZZ_CHECK(n < TIME_HTTP_MAX);
    FUZZ_CHECK(time_parse_http(str_make(text, n), &again, NULL) == 0);
    FUZZ_CHECK(us - again >= 0 && us - again < TIME_US_PER_S);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str s = str_make((const char *)data, size);
    int64_t strict, lenient, http;
    struct err e = {0};
    bool is_strict = time_parse(s, &strict, &e) == 0;

    FUZZ_CHECK(is_strict || (e.code > 0 && e.msg[0]));
    if (is_strict) {
        check_print(strict);
        check_http(strict);
        FUZZ_CHECK(time_parse_lenient(s, &lenient, NULL) == 0 && lenient == strict);
    }
    if (time_parse_lenient(s, &lenient, &e) == 0)
        check_print(lenient);
    if (time_parse_http(s, &http, &e) == 0) {
        check_print(http);
        check_http(http);
    }
    return 0;
}
