/* Input: the beginning of a command. Whatever it is, a secret that follows on a line of its own
 * is gone; and what redacting leaves can be redacted. */
#include "execd/log/redact.h"

#include "fuzz.h"

#define SECRET "sesame-0815"

static const struct str endings[] = {
    STR_INIT("\n\nAPI_TOKEN=" SECRET "\n"),
    STR_INIT("\n\ncurl --password '" SECRET "'\n"),
    STR_INIT("\n\nAuthorization: Basic " SECRET "\n"),
    STR_INIT("\n\ngit clone https://ann:" SECRET "@host/x\n"),
};

static void redact_with(struct str text, struct str ending)
{
    AUTO_BUF(in, 16 << 10);
    AUTO_BUF(out, 256 << 10);
    AUTO_BUF(again, 2 << 20);

    if (buf_add(&in, text) < 0 || buf_add(&in, ending) < 0)
        return;
    FUZZ_CHECK(redact(buf_str(&in), &out) == 0);
    FUZZ_CHECK(str_find_str(buf_str(&out), STR(SECRET)) == out.n);
    FUZZ_CHECK(redact(buf_str(&out), &again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);

    if (size > 8192 || str_find_str(text, STR("sesame")) < size)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(endings); i++)
        redact_with(text, endings[i]);
    return 0;
}
