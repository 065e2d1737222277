#include "api/fail.h"

#include "test.h"

TEST(fail, carries_status_code_and_sentence)
{
    struct api_fail f = {0};

    CHECK_EQ(api_fail_set(&f, 409, "SNAPSHOT::NOT_READY", "snapshot %d", 7), -EBADMSG);
    CHECK_EQ(f.status, 409);
    CHECK_STR(f.code, "SNAPSHOT::NOT_READY");
    CHECK_STR(f.message, "snapshot 7");
    CHECK_EQ(api_fail_invalid(&f, "timeout: %s", "no"), -EBADMSG);
    CHECK_EQ(f.status, 400);
    CHECK_STR(f.code, "SANDBOX::INVALID_PARAMETER");
    CHECK_STR(f.message, "timeout: no");
}

TEST(fail, tells_what_is_wrong_from_what_is_too_much)
{
    struct err wrong = {EBADMSG, "a.b: expected a string"}, full = {ENOMEM, "no memory left"};
    struct api_fail f = {0};

    CHECK_EQ(api_fail_err(&f, &wrong), -EBADMSG);
    CHECK_EQ(f.status, 400);
    CHECK_STR(f.message, "a.b: expected a string");
    CHECK_EQ(api_fail_err(&f, &full), -EBADMSG);
    CHECK_EQ(f.status, 413);
}

TEST(fail, cuts_a_message_between_characters)
{
    struct api_fail f = {0};
    char text[2 * API_FAIL_MESSAGE_MAX];

    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa4", 3);
    api_fail_invalid(&f, "%s", text);
    CHECK_EQ(strlen(f.message), API_FAIL_MESSAGE_MAX - 2); /* 511 would be half a character */
}

TEST(fail, shows_foreign_text_printable_and_short)
{
    char text[100];

    memset(text, 'x', sizeof(text));
    CHECK_STR(api_show(STR("a\nb\x7f\xc3\xa4")).text, "a?b???");
    CHECK_STR(api_show(STR_NONE).text, "");
    CHECK_EQ(strlen(api_show(str_make(text, sizeof(text))).text), 63);
    CHECK_STR(api_show(str_make(text, sizeof(text))).text + 60, "...");
    CHECK_EQ(api_show(str_make(text, 63)).text[62], 'x');
}
