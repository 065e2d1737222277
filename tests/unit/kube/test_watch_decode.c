#include "kube/watch_decode.h"
#include "test.h"

static struct {
    enum kube_event_kind kinds[16];
    char names[16][64];
    size_t count, fail_at;
} seen;

static int on_event(void *user, enum kube_event_kind kind, struct kube_object *o, struct err *e)
{
    CHECK(seen.count < ARRAY_LEN(seen.kinds));
    seen.kinds[seen.count] = kind;
    CHECK_EQ(str_copy(seen.names[seen.count], sizeof(seen.names[0]), o->name), 0);
    seen.count++;
    return seen.fail_at && seen.count >= seen.fail_at ? -ECANCELED : 0;
}

static int feed(struct str text, size_t step, struct err *e)
{
    struct kube_watch_decoder d;
    int r = 0;

    memset(&seen, 0, sizeof(seen));
    kube_watch_decoder_init(&d, on_event, NULL);
    while (r == 0 && text.n) {
        size_t n = min_size(step, text.n);

        r = kube_watch_decode(&d, str_make(text.p, n), e);
        text = str_skip(text, n);
    }
    kube_watch_decoder_done(&d);
    return r;
}

#define EVENT(type, name)                                                                          \
    "{\"type\":\"" type "\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name           \
    "\",\"resourceVersion\":\"7\"}}}\n"

TEST(watch, comes_in_pieces_of_any_size)
{
    const struct str text = STR(EVENT("ADDED", "a") EVENT("MODIFIED", "b") "\r\n\n" EVENT(
        "DELETED", "c") EVENT("BOOKMARK", ""));

    for (size_t step = 1; step < text.n + 2; step++) {
        CHECK_EQ(feed(text, step, NULL), 0);
        CHECK_EQ(seen.count, 4);
        CHECK_EQ(seen.kinds[0], KUBE_ADDED);
        CHECK_EQ(seen.kinds[1], KUBE_MODIFIED);
        CHECK_EQ(seen.kinds[2], KUBE_DELETED);
        CHECK_EQ(seen.kinds[3], KUBE_BOOKMARK);
        CHECK_STR(seen.names[2], "c");
    }
}

TEST(watch, tells_an_event_only_when_it_is_complete)
{
    CHECK_EQ(
        feed(STR("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}"), 100, NULL), 0);
    CHECK_EQ(seen.count, 0);
}

TEST(watch, stops_at_what_is_no_event)
{
    static const char *const bad[] = {
        "nonsense\n",
        "[]\n",
        "{}\n",
        "{\"type\":\"BORN\",\"object\":{}}\n",
        "{\"type\":\"ADDED\"}\n",
        "{\"type\":\"ADDED\",\"object\":[]}\n",
        "{\"type\":\"ADDED\",\"object\":{}\n",
    };
    struct err e;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        e = (struct err){0};
        CHECK_EQ(feed(str_of(bad[i]), 5, &e), -EBADMSG);
        CHECK(strstr(e.msg, "an event of a watch"));
        CHECK_EQ(seen.count, 0);
    }
}

TEST(watch, has_events_of_limited_size)
{
    struct kube_watch_decoder d;
    static char piece[1 << 20];
    int r = 0;
    size_t n = 0;

    memset(piece, ' ', sizeof(piece));
    kube_watch_decoder_init(&d, on_event, NULL);
    while (r == 0 && n++ < 64)
        r = kube_watch_decode(&d, str_make(piece, sizeof(piece)), NULL);
    CHECK_EQ(r, -EMSGSIZE);
    CHECK(n < 12);
    kube_watch_decoder_done(&d);
}

TEST(watch, ends_when_the_receiver_says_so)
{
    struct kube_watch_decoder d;

    memset(&seen, 0, sizeof(seen));
    seen.fail_at = 1;
    kube_watch_decoder_init(&d, on_event, NULL);
    CHECK_EQ(kube_watch_decode(&d, STR(EVENT("ADDED", "a") EVENT("ADDED", "b")), NULL), -ECANCELED);
    CHECK_EQ(seen.count, 1);
    kube_watch_decoder_done(&d);
}

TEST(watch, objects_are_whole_without_managed_fields)
{
    struct kube_object *o;

    CHECK_EQ(kube_object_parse(STR("{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":"
                                   "\"u\",\"resourceVersion\":\"12\",\"generation\":3,"
                                   "\"managedFields\":[{\"x\":[1,2]}],\"labels\":{\"k.io/l\":"
                                   "\"v\"},\"finalizers\":[\"f\"],\"ownerReferences\":[{\"uid\":"
                                   "\"1\"},{\"uid\":\"2\",\"controller\":true}]},\"spec\":"
                                   "{\"n\":[1,2.5,null,{\"d\":true}]},\"status\":{\"conditions\":"
                                   "[{\"type\":\"Ready\",\"status\":\"True\"}]}}"),
                               &o, NULL),
             0);
    CHECK_SPAN(o->ns, "n");
    CHECK_SPAN(o->name, "a");
    CHECK_SPAN(o->version, "12");
    CHECK_EQ(o->revision, 12);
    CHECK_EQ(o->generation, 3);
    CHECK(!o->deleting);
    CHECK(!kube_get(o->root, "metadata.managedFields"));
    CHECK_EQ(json_count(kube_get(o->root, "metadata")), 8);
    CHECK_EQ(json_count(kube_get(o->root, "spec.n")), 4);
    CHECK(kube_bool(json_at(kube_get(o->root, "spec.n"), 3), "d"));
    CHECK_SPAN(kube_label(o, STR("k.io/l")), "v");
    CHECK(kube_has_finalizer(o, STR("f")));
    CHECK(!kube_has_finalizer(o, STR("g")));
    CHECK_SPAN(kube_str(kube_controller_of(o), "uid"), "2");
    CHECK_SPAN(
        kube_str(kube_condition(kube_get(o->root, "status.conditions"), STR("Ready")), "status"),
        "True");
    kube_object_unref(o);
}
