/* Pulls against a registry by script, which lies, stalls, breaks and redirects as told. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"
#include "dir_blobs.h"
#include "fake_registry.h"
#include "image/pull.h"
#include "test.h"

enum { LAYER_BYTES = 700 * 1000, RULES_MAX = 32, LAYERS = 2 };

#define OCI           "application/vnd.oci.image."
#define OK_HEAD(type) "HTTP/1.1 200 OK\r\nContent-Type: " type "\r\n"

static struct world {
    struct loop *loop;
    struct pool *pool;
    struct image_registry *registry;
    struct image_puller *puller;
    struct dir_blobs blobs;
    char dir[64];
    /* the image */
    char layer[LAYERS][LAYER_BYTES];
    struct image_digest layer_digest[LAYERS], config_digest, manifest_digest;
    char config[2048], manifest[4096];
    /* the registry */
    struct fake_rule rules[RULES_MAX];
    char paths[RULES_MAX][256];
    size_t rule_count;
    uint16_t port;
    struct image_registry_rule registry_rules[2];
    size_t registry_rule_count;
    char proxy[64];
    struct image_registry_conf conf;
    /* the last pull */
    int done, error, progressed;
    struct err err;
    struct image_pulled pulled;
} w; /* a test is a process of its own */

/* --- the image --- */

static void make_image(const char *arch)
{
    struct image_digest diff_id;

    for (size_t k = 0; k < LAYERS; k++) {
        uint32_t x = 12345 + (uint32_t)k;

        for (size_t i = 0; i < LAYER_BYTES; i++) {
            x = x * 1103515245 + 12345;
            w.layer[k][i] = (char)(x >> 16);
        }
        image_digest_of(str_make(w.layer[k], LAYER_BYTES), &w.layer_digest[k]);
    }
    image_digest_of(STR("tar"), &diff_id);
    snprintf(w.config, sizeof(w.config),
             "{\"os\":\"linux\",\"architecture\":\"%s\",\"config\":{},\"rootfs\":{\"type\":"
             "\"layers\",\"diff_ids\":[\"%s\",\"%s\"]}}",
             arch, diff_id.text, diff_id.text);
    image_digest_of(str_of(w.config), &w.config_digest);
    snprintf(w.manifest, sizeof(w.manifest),
             "{\"schemaVersion\":2,\"mediaType\":\"" OCI "manifest.v1+json\",\"config\":{"
             "\"mediaType\":\"" OCI "config.v1+json\",\"digest\":\"%s\",\"size\":%zu},\"layers\":["
             "{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"%s\",\"size\":%d},"
             "{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"%s\",\"size\":%d}]}",
             w.config_digest.text, strlen(w.config), w.layer_digest[0].text, LAYER_BYTES,
             w.layer_digest[1].text, LAYER_BYTES);
    image_digest_of(str_of(w.manifest), &w.manifest_digest);
}

/* --- the registry --- */

static struct fake_rule *rule(const char *path, const char *head, const void *body, size_t n)
{
    struct fake_rule *r = &w.rules[w.rule_count];

    CHECK(w.rule_count < RULES_MAX);
    snprintf(w.paths[w.rule_count], sizeof(w.paths[0]), "%s", path);
    *r = (struct fake_rule){
        .path = w.paths[w.rule_count++], .head = head, .body = body, .body_bytes = n};
    return r;
}

static struct fake_rule *blob_rule(const struct image_digest *d, const char *head, const void *body,
                                   size_t n)
{
    char path[256];

    snprintf(path, sizeof(path), "/v2/me/app/blobs/%s", d->text);
    return rule(path, head, body, n);
}

#define MANIFEST_HEAD OK_HEAD(OCI "manifest.v1+json")
#define BLOB_HEAD     OK_HEAD("application/octet-stream")

static void serve_manifest(void)
{
    rule("/v2/me/app/manifests/1", MANIFEST_HEAD, w.manifest, strlen(w.manifest));
}

static void serve_config(void)
{
    blob_rule(&w.config_digest, BLOB_HEAD, w.config, strlen(w.config));
}

static void serve_layers(void)
{
    for (size_t k = 0; k < LAYERS; k++)
        blob_rule(&w.layer_digest[k], BLOB_HEAD, w.layer[k], LAYER_BYTES)->ranges = true;
}

/* Rules of the test's own come before. */
static void serve_rest(void)
{
    serve_manifest();
    serve_config();
    serve_layers();
}

/* --- the world --- */

static void set_up(void)
{
    struct pool_conf pool = {.name = "test", .threads = 3, .queue_max = 64};

    snprintf(w.dir, sizeof(w.dir), "/tmp/test-pull-XXXXXX");
    CHECK(mkdtemp(w.dir) != NULL);
    CHECK_EQ(loop_new(&w.loop, NULL), 0);
    CHECK_EQ(pool_new(&pool, &w.pool, NULL), 0);
    w.blobs.loop = w.loop;
    w.blobs.dirfd = open(w.dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    CHECK(w.blobs.dirfd >= 0);
    make_image("amd64");
    w.conf = (struct image_registry_conf){
        .connect_ms = 2000, .head_ms = 2000, .stall_ms = 1000, .tries = 3, .backoff_ms = 10};
}

static void start(void)
{
    struct image_puller_conf puller = {
        .loop = w.loop, .pool = w.pool, .blobs = {&dir_blobs_ops, &w.blobs}
    };
    struct err e = {0};

    if (!w.port)
        w.port = fake_registry_start(w.rules, w.rule_count);
    w.conf.loop = w.loop;
    w.conf.pool = w.pool;
    w.conf.rules = w.registry_rules;
    w.conf.rule_count = w.registry_rule_count;
    if (image_registry_new(&w.conf, &w.registry, &e) < 0)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    puller.registry = w.registry;
    CHECK_EQ(image_puller_new(&puller, &w.puller, NULL), 0);
}

static void on_due_stop(struct loop_timer *t UNUSED)
{
    loop_stop(w.loop);
}

static void turn(void)
{
    struct loop_timer t = {0};

    loop_timer_set(w.loop, &t, time_mono_ns() + TIME_NS_PER_MS, on_due_stop);
    CHECK_EQ(loop_run(w.loop, NULL), 0);
    loop_timer_stop(w.loop, &t);
}

#define RUN_UNTIL(condition)                                                                       \
    do                                                                                             \
        turn();                                                                                    \
    while (!(condition))

static void remove_dir(void)
{
    DIR *d = opendir(w.dir);

    for (struct dirent *entry; (entry = readdir(d));)
        (void)unlinkat(dirfd(d), entry->d_name, 0);
    closedir(d);
    CHECK_EQ(rmdir(w.dir), 0);
}

static void tear_down(void)
{
    RUN_UNTIL(image_puller_is_idle(w.puller));
    CHECK_EQ(w.blobs.begun, w.blobs.ended);
    image_puller_free(w.puller);
    image_registry_free(w.registry);
    pool_free(w.pool);
    loop_settle(w.loop);
    loop_free(w.loop);
    fd_close(w.blobs.dirfd);
    remove_dir();
}

/* --- pulls --- */

static void on_progress(struct image_pull *p UNUSED, const char *text, uint64_t done,
                        uint64_t total)
{
    w.progressed++;
    CHECK(text[0]);
    CHECK(total == 0 || done <= total);
}

static void on_done(struct image_pull *p UNUSED, int error, const struct err *e,
                    const struct image_pulled *image)
{
    w.done++;
    w.error = error;
    if (error)
        w.err = *e;
    else
        w.pulled = *image;
}

static const struct image_pull_ops pull_ops = {on_progress, on_done};

static struct image_pull_spec spec_of(const char *name)
{
    struct image_pull_spec spec = {
        .platform = {"linux", "amd64", ""}
    };
    char text[512];

    snprintf(text, sizeof(text), "127.0.0.1:%u/%s", w.port, name);
    CHECK_EQ(image_reference_parse(str_of(name[0] == '/' ? name + 1 : text), &spec.reference, NULL),
             0);
    return spec;
}

static struct image_pull *begin(const struct image_pull_spec *spec)
{
    struct image_pull *p;
    struct err e = {0};

    if (image_pull_start(w.puller, spec, &pull_ops, NULL, &p, &e) < 0)
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    return p;
}

static void pull_spec(const struct image_pull_spec *spec)
{
    int before = w.done;

    begin(spec);
    RUN_UNTIL(w.done > before);
}

static void pull(const char *name)
{
    struct image_pull_spec spec = spec_of(name);

    pull_spec(&spec);
}

static void succeeds(void)
{
    if (w.error)
        test_fail(__FILE__, __LINE__, "%s", w.err.msg);
    CHECK_STR(w.pulled.manifest.text, w.manifest_digest.text);
}

static void fails(int code, const char *says)
{
    if (w.error != code || !strstr(w.err.msg, says))
        test_fail(__FILE__, __LINE__, "%d (not %d): %s (not %s)", w.error, code, w.err.msg, says);
    CHECK(strstr(w.err.msg, "me/app") != NULL);
    CHECK_EQ(w.blobs.recorded, 0);
}

static bool has_file(const char *name)
{
    return faccessat(w.blobs.dirfd, name, F_OK, 0) == 0;
}

/* --- tests --- */

TEST(pull, brings_an_image_with_all_its_layers)
{
    AUTO_BUF(got, LAYER_BYTES);

    set_up();
    serve_rest();
    start();
    pull("me/app:1");
    succeeds();
    CHECK_EQ(w.pulled.bytes, LAYERS * LAYER_BYTES);
    CHECK(!w.pulled.was_present);
    CHECK_EQ(w.blobs.unpacked, 2);
    CHECK_EQ(w.blobs.recorded, 1);
    CHECK(w.progressed > 1);
    CHECK_EQ(
        io_read_file(w.blobs.dirfd, image_digest_hex(&w.layer_digest[1]), LAYER_BYTES, &got, NULL),
        0);
    CHECK(got.n == LAYER_BYTES && memcmp(got.p, w.layer[1], LAYER_BYTES) == 0);
    CHECK(has_file(image_digest_hex(&w.config_digest)));
    CHECK(has_file(image_digest_hex(&w.manifest_digest)));
    tear_down();
}

TEST(pull, does_not_ask_for_what_is_here)
{
    struct image_pull_spec spec;
    unsigned before;

    set_up();
    serve_rest();
    start();
    pull("me/app:1");
    succeeds();
    before = fake_registry_requests();
    pull("me/app:1");
    succeeds();
    CHECK(w.pulled.was_present);
    CHECK_EQ(fake_registry_requests(), before);
    spec = spec_of("me/app:1");
    spec.policy = IMAGE_PULL_ALWAYS;
    pull_spec(&spec);
    succeeds();
    CHECK_EQ(fake_registry_requests(), before + 1); /* the manifest alone */
    CHECK_EQ(w.pulled.bytes, 0);
    tear_down();
}

TEST(pull, never_means_never)
{
    struct image_pull_spec spec;

    set_up();
    serve_rest();
    start();
    spec = spec_of("me/app:1");
    spec.policy = IMAGE_PULL_NEVER;
    pull_spec(&spec);
    fails(ENOENT, "never");
    CHECK_EQ(fake_registry_requests(), 0);
    tear_down();
}

TEST(pull, of_an_unknown_tag_says_who_answered_what)
{
    char host[64];

    set_up();
    serve_rest();
    start();
    pull("me/app:2");
    snprintf(host, sizeof(host), "127.0.0.1:%u answered 404 Not Found: nothing here", w.port);
    fails(ENOENT, host);
    tear_down();
}

TEST(pull, by_digest_takes_nothing_else)
{
    char name[256], path[256];

    set_up();
    snprintf(path, sizeof(path), "/v2/me/app/manifests/%s", w.layer_digest[0].text);
    rule(path, MANIFEST_HEAD, w.manifest, strlen(w.manifest));
    snprintf(path, sizeof(path), "/v2/me/app/manifests/%s", w.manifest_digest.text);
    rule(path, MANIFEST_HEAD, w.manifest, strlen(w.manifest));
    serve_rest();
    start();
    snprintf(name, sizeof(name), "me/app@%s", w.layer_digest[0].text);
    pull(name);
    fails(EBADMSG, "the registry sent sha256:");
    snprintf(name, sizeof(name), "me/app@%s", w.manifest_digest.text);
    pull(name);
    succeeds();
    tear_down();
}

TEST(pull, refuses_a_layer_with_other_bytes)
{
    static char wrong[LAYER_BYTES];

    set_up();
    blob_rule(&w.layer_digest[1], BLOB_HEAD, wrong, LAYER_BYTES);
    serve_rest();
    start();
    pull("me/app:1");
    fails(EBADMSG, "layer 2 of 2");
    CHECK_EQ(w.blobs.abandoned_dropped, 2); /* it was asked for twice */
    tear_down();
}

TEST(pull, gets_over_one_wrong_answer)
{
    static char wrong[LAYER_BYTES];

    set_up();
    blob_rule(&w.layer_digest[1], BLOB_HEAD, wrong, LAYER_BYTES)->times = 1;
    serve_rest();
    start();
    pull("me/app:1");
    succeeds();
    tear_down();
}

TEST(pull, refuses_a_configuration_with_other_bytes)
{
    set_up();
    blob_rule(&w.config_digest, BLOB_HEAD, w.manifest, strlen(w.config));
    serve_rest();
    start();
    pull("me/app:1");
    fails(EBADMSG, "configuration");
    tear_down();
}

TEST(pull, refuses_sizes_that_are_not_the_manifests)
{
    set_up();
    blob_rule(&w.layer_digest[0], BLOB_HEAD "Content-Length: 5\r\n", "12345", 5);
    serve_rest();
    start();
    pull("me/app:1");
    fails(EPROTO, "announced 5 bytes of a blob that has 700000");
    tear_down();
}

TEST(pull, refuses_more_bytes_than_the_manifest_says)
{
    static char longer[LAYER_BYTES + 1];

    set_up();
    blob_rule(&w.layer_digest[0], BLOB_HEAD "Transfer-Encoding: identity-less\r\n", longer,
              sizeof(longer));
    w.rules[0].head = "HTTP/1.0 200 OK\r\nX-Content-Length: none\r\n"; /* until the end */
    serve_rest();
    start();
    pull("me/app:1");
    fails(EPROTO, "sent more than the 700000 bytes");
    tear_down();
}

TEST(pull, goes_on_after_a_broken_transfer)
{
    struct fake_rule *r;

    set_up();
    r = blob_rule(&w.layer_digest[0], BLOB_HEAD, w.layer[0], LAYER_BYTES);
    r->cut = 400 * 1000;
    r->times = 1;
    serve_rest();
    start();
    pull("me/app:1");
    succeeds();
    CHECK(w.pulled.bytes < LAYERS * LAYER_BYTES + 100 * 1000); /* the first part came once */
    tear_down();
}

TEST(pull, starts_anew_where_there_are_no_ranges)
{
    struct fake_rule *r;

    set_up();
    r = blob_rule(&w.layer_digest[0], BLOB_HEAD, w.layer[0], LAYER_BYTES);
    r->cut = 400 * 1000;
    r->times = 1;
    blob_rule(&w.layer_digest[0], BLOB_HEAD, w.layer[0], LAYER_BYTES);
    serve_rest();
    start();
    pull("me/app:1");
    succeeds();
    CHECK(w.pulled.bytes > LAYERS * LAYER_BYTES);
    tear_down();
}

TEST(pull, gives_up_on_transfers_that_always_break)
{
    struct fake_rule *r;

    set_up();
    r = blob_rule(&w.layer_digest[0], BLOB_HEAD, w.layer[0], LAYER_BYTES);
    r->cut = 1000;
    serve_rest();
    start();
    pull("me/app:1");
    fails(EHOSTUNREACH, "layer 1 of 2");
    CHECK_EQ(r->hits, 3);
    CHECK(w.blobs.abandoned_kept >= 1);
    CHECK(!has_file(image_digest_hex(&w.layer_digest[0])));
    tear_down();
}

TEST(pull, resumes_what_an_earlier_one_left)
{
    struct fake_rule *r;

    set_up();
    r = blob_rule(&w.layer_digest[0], BLOB_HEAD, w.layer[0], LAYER_BYTES);
    r->cut = 400 * 1000;
    r->times = 3;
    blob_rule(&w.layer_digest[0], BLOB_HEAD, w.layer[0], LAYER_BYTES)->ranges = true;
    serve_rest();
    start();
    pull("me/app:1");
    fails(EHOSTUNREACH, "layer 1 of 2");
    pull("me/app:1");
    succeeds();
    CHECK(w.blobs.resumed_bytes >= 400 * 1000);
    CHECK(w.pulled.bytes <= LAYERS * LAYER_BYTES - 400 * 1000);
    tear_down();
}

TEST(pull, does_not_trust_what_an_earlier_one_left)
{
    char name[128];
    int fd;

    set_up();
    serve_rest();
    start();
    snprintf(name, sizeof(name), "%.64s.part", image_digest_hex(&w.layer_digest[0]));
    fd = openat(w.blobs.dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK_EQ(write(fd, "not of this layer", 17), 17);
    close(fd);
    pull("me/app:1");
    succeeds();
    CHECK_EQ(w.blobs.abandoned_dropped, 1);
    tear_down();
}

TEST(pull, does_not_wait_for_ever_for_a_registry_that_stalls)
{
    struct fake_rule *r;
    uint64_t began;

    set_up();
    r = rule("/v2/me/app/manifests/", MANIFEST_HEAD, w.manifest, strlen(w.manifest));
    r->cut = 10;
    r->stalls = true;
    serve_rest();
    w.conf.stall_ms = 200;
    start();
    began = time_mono_ms();
    pull("me/app:1");
    fails(ETIMEDOUT, "sent nothing");
    CHECK_EQ(r->hits, 3);
    CHECK(time_mono_ms() - began < 30 * 1000);
    tear_down();
}

TEST(pull, does_not_go_in_circles)
{
    set_up();
    rule("/v2/me/app/manifests/",
         "HTTP/1.1 307 Temporary Redirect\r\nLocation: /v2/me/app/manifests/1\r\n", NULL, 0);
    start();
    pull("me/app:1");
    fails(EPROTO, "in circles");
    CHECK_EQ(w.rules[0].hits, 6);
    tear_down();
}

TEST(pull, follows_a_redirect_to_another_host_without_credentials)
{
    static char head[256];
    struct image_pull_spec spec;

    set_up();
    rule("/v2/", "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n", NULL, 0);
    w.rules[0].times = 1;
    rule("/elsewhere", MANIFEST_HEAD, w.manifest, strlen(w.manifest));
    rule("/v2/me/app/manifests/", head, NULL, 0)->needs = "Authorization: Basic bWU6cHc=";
    serve_config();
    w.rules[w.rule_count - 1].needs = NULL;
    serve_layers();
    w.port = fake_registry_start(w.rules, w.rule_count);
    snprintf(head, sizeof(head),
             "HTTP/1.1 302 Found\r\nLocation: http://localhost:%u/elsewhere?a=b\r\n", w.port);
    start();
    spec = spec_of("me/app:1");
    spec.auth = (struct image_auth){.username = STR("me"), .password = STR("pw")};
    w.blobs.open_error = EIO; /* the manifest and the config are all that matters here */
    pull_spec(&spec);
    CHECK_EQ(w.rules[1].hits, 1);
    CHECK_EQ(w.rules[2].hits, 1);
    tear_down();
}

TEST(pull, refuses_a_manifest_that_is_called_otherwise)
{
    set_up();
    rule("/v2/me/app/manifests/", OK_HEAD(OCI "index.v1+json"), w.manifest, strlen(w.manifest));
    start();
    pull("me/app:1");
    fails(EPROTO, "calls");
    tear_down();
}

TEST(pull, refuses_a_manifest_that_is_a_web_page)
{
    set_up();
    rule("/v2/me/app/manifests/", OK_HEAD("text/html"), "<html>", 6);
    start();
    pull("me/app:1");
    fails(EPROTO, "manifest");
    tear_down();
}

TEST(pull, refuses_a_manifest_without_end)
{
    static char blanks[9 << 20];

    set_up();
    memset(blanks, ' ', sizeof(blanks));
    rule("/v2/me/app/manifests/", MANIFEST_HEAD, blanks, sizeof(blanks));
    start();
    pull("me/app:1");
    fails(EFBIG, "too large");
    tear_down();
}

static char index_text[2048];

static void make_index(const char *arch)
{
    snprintf(index_text, sizeof(index_text),
             "{\"schemaVersion\":2,\"mediaType\":\"" OCI "index.v1+json\",\"manifests\":[{"
             "\"mediaType\":\"" OCI "manifest.v1+json\",\"digest\":\"%s\",\"size\":%zu,"
             "\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}}]}",
             w.manifest_digest.text, strlen(w.manifest), arch);
    rule("/v2/me/app/manifests/list", OK_HEAD(OCI "index.v1+json"), index_text, strlen(index_text));
}

TEST(pull, takes_its_platform_from_an_index)
{
    char path[256];

    set_up();
    make_index("amd64");
    snprintf(path, sizeof(path), "/v2/me/app/manifests/%s", w.manifest_digest.text);
    rule(path, MANIFEST_HEAD, w.manifest, strlen(w.manifest));
    serve_rest();
    start();
    pull("me/app:list");
    succeeds();
    tear_down();
}

TEST(pull, says_which_platforms_there_are)
{
    set_up();
    make_index("s390x");
    start();
    pull("me/app:list");
    fails(ENOEXEC, "not made for linux/amd64; there are linux/s390x");
    tear_down();
}

TEST(pull, refuses_an_image_of_another_platform)
{
    set_up();
    make_image("s390x");
    serve_rest();
    start();
    pull("me/app:1");
    fails(ENOEXEC, "made for linux/s390x, not for linux/amd64");
    tear_down();
}

/* --- credentials --- */

#define BASIC_401 "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n"

static void pull_as(const char *user, const char *password)
{
    struct image_pull_spec spec = spec_of("me/app:1");

    spec.auth = (struct image_auth){.username = str_of(user), .password = str_of(password)};
    pull_spec(&spec);
}

/* What follows needs the header, all else is 401. */
static void guard(const char *needs, const char *challenge)
{
    static const char answer[] = "{\"errors\":[{\"message\":\"who are you\"}]}";

    serve_rest();
    for (size_t i = 0; i < w.rule_count; i++)
        w.rules[i].needs = needs;
    rule("/v2/", challenge, answer, strlen(answer));
}

TEST(pull, shows_a_password_when_asked)
{
    set_up();
    guard("Authorization: Basic bWU6cHc=", BASIC_401);
    start();
    pull_as("me", "no");
    fails(EACCES, "401 Unauthorized: who are you");
    pull("me/app:1");
    fails(EACCES, "no credentials were given");
    pull_as("me", "pw");
    succeeds();
    tear_down();
}

TEST(pull, does_not_take_forbidden_for_unauthorized)
{
    set_up();
    rule("/v2/", "HTTP/1.1 403 Forbidden\r\n", NULL, 0);
    start();
    pull("me/app:1");
    fails(EPERM, "403");
    tear_down();
}

static char bearer_401[512];

static void guard_by_token(const char *realm_needs)
{
    guard("Authorization: Bearer t0k3n", bearer_401);
    rule("/token", OK_HEAD("application/json"), "{\"token\":\"t0k3n\",\"expires_in\":300}", 34)
        ->needs = realm_needs;
    rule("/token", "HTTP/1.1 401 Unauthorized\r\n", NULL, 0);
    w.port = fake_registry_start(w.rules, w.rule_count);
    snprintf(bearer_401, sizeof(bearer_401),
             "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"http://127.0.0.1:%u/"
             "token\",service=\"s\",scope=\"x\"\r\n",
             w.port);
    start();
}

TEST(pull, gets_a_token_and_keeps_it)
{
    set_up();
    guard_by_token("scope=repository%3Ame%2Fapp%3Apull&service=s");
    pull("me/app:1");
    succeeds();
    CHECK_EQ(w.rules[5].hits, 1);
    tear_down();
}

TEST(pull, shows_the_password_to_the_token_server)
{
    set_up();
    guard_by_token("Authorization: Basic bWU6cHc=");
    pull_as("me", "no");
    fails(EACCES, "401");
    pull_as("me", "pw");
    succeeds();
    tear_down();
}

TEST(pull, refuses_a_challenge_that_makes_no_sense)
{
    set_up();
    rule("/v2/", "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"x\r\n", NULL, 0);
    start();
    pull("me/app:1");
    fails(EPROTO, "WWW-Authenticate");
    tear_down();
}

/* --- retries, mirrors, proxies --- */

TEST(pull, comes_again_when_the_registry_is_busy)
{
    set_up();
    rule("/v2/", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\n", NULL, 0)->times = 1;
    rule("/v2/", "HTTP/1.1 503 Service Unavailable\r\n", NULL, 0)->times = 1;
    serve_rest();
    start();
    pull("me/app:1");
    succeeds();
    tear_down();
}

TEST(pull, does_not_wait_longer_than_it_may)
{
    set_up();
    rule("/v2/", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7200\r\n", NULL, 0);
    start();
    pull("me/app:1");
    fails(EBUSY, "429");
    CHECK_EQ(w.rules[0].hits, 1);
    tear_down();
}

TEST(pull, gives_up_on_a_registry_that_is_not_there)
{
    set_up();
    w.port = 1; /* nobody listens */
    start();
    pull("me/app:1");
    fails(EHOSTUNREACH, "127.0.0.1:1: ");
    tear_down();
}

TEST(pull, asks_mirrors_first_and_the_registry_last)
{
    static char good[64];
    static const char *mirrors[] = {"http://127.0.0.1:1", good};

    set_up();
    rule("/copy/v2/me/app/manifests/1", MANIFEST_HEAD, w.manifest, strlen(w.manifest));
    serve_rest();
    w.port = fake_registry_start(w.rules, w.rule_count);
    snprintf(good, sizeof(good), "http://127.0.0.1:%u/copy", w.port);
    w.registry_rules[0] = (struct image_registry_rule){
        .registry = "origin.test", .mirrors = mirrors, .mirror_count = 2};
    w.registry_rule_count = 1;
    start();
    w.blobs.open_error = EIO;
    pull("/origin.test/me/app:1");
    CHECK_EQ(w.rules[0].hits, 1);
    /* The mirror has no blobs, and the registry's name does not exist. */
    CHECK(strstr(w.err.msg, "origin.test") != NULL);
    tear_down();
}

TEST(pull, goes_through_a_proxy)
{
    char path[256];

    set_up();
    rule("http://far.test/v2/me/app/manifests/1", MANIFEST_HEAD, w.manifest, strlen(w.manifest))
        ->needs = "Proxy-Authorization: Basic dTpw";
    snprintf(path, sizeof(path), "http://far.test/v2/me/app/blobs/%s", w.config_digest.text);
    rule(path, BLOB_HEAD, w.config, strlen(w.config));
    for (size_t k = 0; k < LAYERS; k++) {
        snprintf(path, sizeof(path), "http://far.test/v2/me/app/blobs/%s", w.layer_digest[k].text);
        rule(path, BLOB_HEAD, w.layer[k], LAYER_BYTES);
    }
    w.port = fake_registry_start(w.rules, w.rule_count);
    snprintf(w.proxy, sizeof(w.proxy), "http://u:p@127.0.0.1:%u", w.port);
    w.conf.proxy.http = w.proxy;
    w.registry_rules[0] = (struct image_registry_rule){.registry = "far.test", .plain_http = true};
    w.registry_rule_count = 1;
    start();
    pull("/far.test/me/app:1");
    succeeds();
    tear_down();
}

TEST(pull, asks_a_proxy_for_a_tunnel_to_https)
{
    set_up();
    rule("far.test:443", "HTTP/1.1 407 Proxy Authentication Required\r\n", NULL, 0);
    w.port = fake_registry_start(w.rules, w.rule_count);
    snprintf(w.proxy, sizeof(w.proxy), "http://127.0.0.1:%u", w.port);
    w.conf.proxy.https = w.proxy;
    start();
    pull("/far.test/me/app:1");
    fails(EACCES, "answered 407");
    CHECK(strstr(fake_registry_last(), "CONNECT far.test:443 HTTP/1.1\r\n") != NULL);
    tear_down();
}

/* --- the store, and who waits --- */

TEST(pull, says_that_the_disk_is_full)
{
    set_up();
    serve_rest();
    w.blobs.commit_error = ENOSPC;
    start();
    pull("me/app:1");
    fails(ENOSPC, "commit a blob");
    tear_down();
}

TEST(pull, fails_when_a_layer_cannot_be_unpacked)
{
    set_up();
    serve_rest();
    w.blobs.unpack_error = EPROTO;
    start();
    pull("me/app:1");
    fails(EPROTO, "unpack it");
    tear_down();
}

TEST(pull, is_joined_by_another_of_the_same)
{
    struct image_pull_spec spec;

    set_up();
    serve_rest();
    start();
    spec = spec_of("me/app:1");
    begin(&spec);
    begin(&spec);
    RUN_UNTIL(w.done == 2);
    succeeds();
    CHECK_EQ(w.blobs.recorded, 1);
    CHECK_EQ(w.blobs.begun, 1);
    tear_down();
}

TEST(pull, shares_layers_with_others)
{
    struct image_pull_spec one, other;

    set_up();
    rule("/v2/me/app/manifests/2", MANIFEST_HEAD, w.manifest, strlen(w.manifest));
    serve_rest();
    start();
    one = spec_of("me/app:1");
    other = spec_of("me/app:2");
    begin(&one);
    begin(&other);
    RUN_UNTIL(w.done == 2);
    succeeds();
    CHECK_EQ(w.blobs.recorded, 2);
    CHECK_EQ(w.blobs.committed, 2); /* each layer once */
    tear_down();
}

TEST(pull, that_is_cancelled_leaves_nothing_half_made)
{
    struct image_pull_spec spec;
    struct image_pull *p;

    set_up();
    serve_rest();
    w.blobs.unpack_hangs = true;
    start();
    spec = spec_of("me/app:1");
    p = begin(&spec);
    RUN_UNTIL(w.blobs.committed == 2);
    image_pull_cancel(p);
    RUN_UNTIL(image_puller_is_idle(w.puller));
    CHECK_EQ(w.done, 0);
    CHECK_EQ(w.blobs.recorded, 0);
    tear_down();
}

TEST(pull, ends_with_the_server)
{
    struct image_pull_spec spec;
    struct fake_rule *r;

    set_up();
    r = blob_rule(&w.layer_digest[0], BLOB_HEAD, w.layer[0], LAYER_BYTES);
    r->cut = 1000;
    r->stalls = true;
    serve_rest();
    w.conf.stall_ms = 60 * 1000;
    start();
    spec = spec_of("me/app:1");
    begin(&spec);
    RUN_UNTIL(w.blobs.opened > 0 && r->hits > 0);
    image_puller_stop(w.puller);
    RUN_UNTIL(w.done == 1);
    fails(ECANCELED, "ending");
    tear_down();
}
