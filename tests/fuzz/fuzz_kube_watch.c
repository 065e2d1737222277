/* Feeds a watch in pieces, and as a whole: both see the same events. */
#include "fuzz.h"
#include "kube/watch_decode.h"

static int on_event(void *user, enum kube_event_kind kind, struct kube_object *o, struct err *e)
{
    size_t *count = user;

    FUZZ_CHECK(o->root->type == JSON_OBJECT);
    if (kind == KUBE_ERROR) {
        struct kube_error error;

        FUZZ_CHECK(kube_error_of_status(o->root, &error) < 0);
    }
    (*count)++;
    return 0;
}

static int feed(struct str text, size_t step, size_t *count)
{
    struct kube_watch_decoder d;
    int r = 0;

    *count = 0;
    kube_watch_decoder_init(&d, on_event, count);
    while (r == 0 && text.n) {
        size_t n = min_size(step, text.n);

        r = kube_watch_decode(&d, str_make(text.p, n), NULL);
        text = str_skip(text, n);
    }
    kube_watch_decoder_done(&d);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);
    size_t whole, pieces;
    int r = feed(text, size + 1, &whole);

    FUZZ_CHECK(feed(text, size ? data[0] % 7 + 1 : 1, &pieces) == r);
    FUZZ_CHECK(whole == pieces);
    return 0;
}
