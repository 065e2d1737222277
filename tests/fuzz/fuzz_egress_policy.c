/* A policy that is taken writes itself, and what is written is the same policy. As a patch or a
 * deletion the same bytes change an existing one, or are refused with a reason. */
#include <errno.h>
#include <string.h>

#include "egress/policy/policy.h"
#include "fuzz.h"

static void check_same(const struct policy *p)
{
    AUTO_BUF(once, 16 * 1024 * 1024);
    AUTO_BUF(twice, 16 * 1024 * 1024);
    struct policy *again = NULL;

    FUZZ_CHECK(policy_write(p, &once) == 0);
    if (once.n > POLICY_TEXT_BYTES_MAX)
        return;
    FUZZ_CHECK(policy_parse(buf_str(&once), &again, NULL) == 0);
    FUZZ_CHECK(policy_write(again, &twice) == 0);
    FUZZ_CHECK(once.n == twice.n && memcmp(once.p, twice.p, once.n) == 0);
    for (size_t i = 0; i < p->count; i++)
        if (p->rules[i].kind == POLICY_NAME)
            FUZZ_CHECK(policy_rule_matches(&p->rules[i], p->rules[i].name));
    policy_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);
    struct policy *p = NULL, *changed = NULL;
    struct err e = {0};
    size_t removed;
    int r = policy_parse(text, &p, &e);

    FUZZ_CHECK(r == 0 || (r < 0 && e.msg[0]));
    if (r == 0)
        check_same(p);
    else
        p = policy_plain(POLICY_DENY);
    if (policy_patch(p, text, &changed, &e) == 0) {
        check_same(changed);
        policy_free(changed);
    }
    if (policy_without(p, text, &changed, &removed, &e) == 0) {
        FUZZ_CHECK(changed->count + removed == p->count);
        policy_free(changed);
    }
    policy_free(p);
    return 0;
}
