/* sdk_keep.c - what a server keeps: images, pools, volumes, forks and persistent sandboxes. */
#include <stdio.h>
#include <unistd.h>

#include "sdk_test.h"

/* --- images --- */

struct progress {
    int calls, stop_after;
    int64_t done, total;
};

static int on_progress(void *user, const char *message, int64_t done, int64_t total)
{
    struct progress *p = user;

    CHECK(message != NULL);
    p->done = done;
    p->total = total;
    return ++p->calls == p->stop_after;
}

static const char *registry_image(void)
{
    const char *name = getenv("TEST_IMAGE");

    if (!name)
        test_skip("there is no registry");
    return name;
}

TEST(sdk_images, pulls_with_progress_lists_and_removes)
{
    const char *name = registry_image();
    struct progress seen = {0};
    struct osb_pull pull = {OSB_PULL, .image = name, .policy = "Always", .on_progress = on_progress,
                            .progress_user = &seen};
    struct osb_answer *a;
    const struct osb_image *image;
    char id[128];
    bool listed = false;

    open_client();
    GOOD(osb_image_pull(client, &pull, &a));
    image = osb_image_at(a, 0);
    CHECK(image && !osb_image_at(a, 1));
    CHECK(strstr(osb_image_id(image), "sha256:") == osb_image_id(image));
    CHECK_STR(osb_image_name(image, 0), name);
    CHECK_EQ(osb_image_name_count(image), 1);
    CHECK(!osb_image_name(image, 1));
    CHECK(osb_image_size(image) > 1 << 20 && osb_image_layers(image) == 2);
    CHECK(!osb_image_in_use(image));
    CHECK(seen.calls > 0 && seen.done > 0 && seen.done <= seen.total);
    snprintf(id, sizeof(id), "%s", osb_image_id(image));
    osb_answer_free(a);
    GOOD(osb_image_list(client, &(struct osb_filter){OSB_FILTER, .page_size = 50}, &a));
    for (size_t i = 0; i < osb_image_count(a); i++)
        listed |= strcmp(osb_image_id(osb_image_at(a, i)), id) == 0;
    CHECK(listed && osb_answer_int(a, "pagination.totalItems", 0) >= 1);
    osb_answer_free(a);
    GOOD(osb_image_get(client, id, &a));
    CHECK_STR(osb_image_name(osb_image_at(a, 0), 0), name);
    CHECK(strstr(osb_image_json(osb_image_at(a, 0)), "GREETING=hello"));
    osb_answer_free(a);
    GOOD(osb_image_delete(client, id));
    CHECK_EQ(osb_image_get(client, id, &a), -ENOENT);
    GOOD(osb_image_prune(client, -1, &a));
    CHECK(osb_answer_has(a, "freedBytes"));
    osb_answer_free(a);
    close_all();
}

TEST(sdk_images, ends_a_pull_and_says_why_one_failed)
{
    struct progress seen = {.stop_after = 1};
    struct osb_pull pull = {OSB_PULL, .image = registry_image(), .policy = "Always",
                            .on_progress = on_progress, .progress_user = &seen};
    struct osb_answer *a = NULL;

    open_client();
    CHECK_EQ(osb_image_pull(client, &pull, &a), -ECANCELED);
    pull.image = "localhost:1/none:1";
    CHECK(osb_image_pull(client, &pull, &a) < 0);
    CHECK_STR(osb_error_code(osb_client_error(client)), "DOCKER::SANDBOX_IMAGE_PULL_FAILED");
    CHECK(strstr(osb_error_message(osb_client_error(client)), "localhost:1"));
    pull.image = "no such name";
    CHECK_EQ(osb_image_pull(client, &pull, &a), -EINVAL);
    pull.policy = "Sometimes";
    CHECK_EQ(osb_image_pull(client, &pull, &a), -EINVAL);
    CHECK(!a);
    close_all();
}

static long read_file(void *user, char *out, size_t size)
{
    return (long)fread(out, 1, size, user);
}

static int write_file(void *user, const char *data, size_t bytes)
{
    return fwrite(data, 1, bytes, user) != bytes;
}

/* The archive of a root directory with one file in it. */
static FILE *open_root_archive(void)
{
    return popen("d=$(mktemp -d) && mkdir $d/etc && echo imported > $d/etc/motd && "
                 "tar -C $d -cf - . && rm -r $d",
                 "re");
}

TEST(sdk_images, imports_and_exports_archives)
{
    struct osb_answer *a;
    FILE *archive = open_root_archive(), *out = tmpfile();
    char id[128];

    CHECK(archive && out);
    open_client();
    GOOD(osb_image_import(client, "sdk/imported:1", read_file, archive, 0, &a));
    CHECK_EQ(pclose(archive), 0);
    snprintf(id, sizeof(id), "%s", osb_image_id(osb_image_at(a, 0)));
    osb_answer_free(a);
    GOOD(osb_image_export(client, "sdk/imported:1", write_file, out));
    CHECK(ftell(out) > 1024);
    GOOD(osb_image_delete(client, "sdk/imported:1"));
    CHECK_EQ(osb_image_export(client, "sdk/imported:1", write_file, out), -ENOENT);
    rewind(out); /* the archive is whole: it comes back as the same image */
    GOOD(osb_image_import(client, NULL, read_file, out, 0, &a));
    CHECK_STR(osb_image_id(osb_image_at(a, 0)), id);
    osb_answer_free(a);
    GOOD(osb_image_delete(client, id));
    fclose(out);
    CHECK_EQ(osb_image_delete(client, ".."), -EINVAL);
    close_all();
}

TEST(sdk_images, refuses_an_archive_that_is_none)
{
    FILE *junk = popen("head -c 100000 /dev/zero | tr '\\0' x", "re");
    struct osb_answer *a = NULL;

    open_client();
    CHECK_EQ(osb_image_import(client, "sdk/junk:1", read_file, junk, 0, &a), -EINVAL);
    CHECK_STR(osb_error_code(osb_client_error(client)), "IMAGE::BAD_ARCHIVE");
    CHECK(!a);
    pclose(junk);
    close_all();
}

/* --- pools --- */

static int64_t available(const char *name)
{
    struct osb_answer *a;
    int64_t n;

    GOOD(osb_pool_get(client, name, &a));
    n = osb_pool_available(osb_pool_at(a, 0));
    osb_answer_free(a);
    return n;
}

TEST(sdk_pools, makes_sandboxes_ahead_and_claims_them)
{
    struct osb_pair env = {"OF", "the pool"}, ref = {"poolRef", "sdk-pool"};
    struct osb_create sandbox = {OSB_CREATE, .image = "host", .env = &env, .env_count = 1};
    struct osb_pool_create pool = {
        OSB_POOL_CREATE, .name = "sdk-pool", .sandbox = &sandbox,
        .warm_up = "echo warm > /tmp/warm", .capacity = {1, 1, 0, 3}
    };
    struct osb_create claim = {OSB_CREATE, .extensions = &ref, .extension_count = 1};
    struct osb_run run = {OSB_RUN, .command = "cat /tmp/warm; echo $OF"};
    struct osb_execution *done;
    struct osb_answer *a;

    open_client();
    GOOD(osb_pool_create(client, &pool, &a));
    CHECK_STR(osb_pool_name(osb_pool_at(a, 0)), "sdk-pool");
    osb_answer_free(a);
    while (available("sdk-pool") < 1)
        GOOD(osb_sleep(client, 20));
    GOOD(osb_sandbox_create(client, &claim, &box));
    GOOD(osb_command_run(box, &run, &done));
    CHECK_STR(osb_execution_stdout(done), "warm\nthe pool\n");
    osb_execution_free(done);
    GOOD(osb_pool_list(client, &a));
    CHECK_EQ(osb_pool_count(a), 1);
    CHECK_EQ(osb_pool_allocated(osb_pool_at(a, 0)), 1);
    CHECK(osb_pool_total(osb_pool_at(a, 0)) >= 1);
    CHECK_STR(osb_pool_message(osb_pool_at(a, 0)), "");
    osb_answer_free(a);
    GOOD(osb_pool_resize(client, "sdk-pool", &(struct osb_capacity){0, 2, 0, 4}, &a));
    CHECK_EQ(osb_answer_int(a, "capacitySpec.poolMax", 0), 4);
    CHECK(strstr(osb_pool_json(osb_pool_at(a, 0)), "sdk-pool"));
    osb_answer_free(a);
    GOOD(osb_pool_delete(client, "sdk-pool"));
    CHECK_EQ(osb_pool_get(client, "sdk-pool", &a), -ENOENT);
    close_all();
}

TEST(sdk_pools, refuses_half_a_request)
{
    struct osb_pool_create pool = {OSB_POOL_CREATE, .name = "x"};

    open_client();
    CHECK_EQ(osb_pool_create(client, &pool, NULL), -EINVAL);
    pool.template_json = "[]";
    CHECK_EQ(osb_pool_create(client, &pool, NULL), -EINVAL);
    pool.template_json = "{";
    CHECK_EQ(osb_pool_create(client, &pool, NULL), -EINVAL);
    pool.template_json = "{\"image\":{\"uri\":\"host\"}}"; /* of the rest the server judges */
    pool.name = "No Name";
    CHECK_EQ(osb_pool_create(client, &pool, NULL), -EINVAL);
    CHECK_EQ(osb_error_status(osb_client_error(client)), 400);
    close_all();
}

/* --- volumes --- */

TEST(sdk_volumes, outlive_sandboxes)
{
    struct osb_volume mount = {.name = "data", .mount_path = "/data", .claim_name = "sdk-volume"};
    struct osb_create create = {OSB_CREATE, .image = "host", .volumes = &mount, .volume_count = 1};
    const struct osb_volume_info *volume;
    struct osb_answer *a;

    open_client();
    GOOD(osb_volume_create(client, "sdk-volume", NULL, &a));
    volume = osb_volume_at(a, 0);
    CHECK_STR(osb_volume_name(volume), "sdk-volume");
    CHECK_EQ(osb_volume_size(volume), -1);
    CHECK_EQ(osb_volume_user_count(volume), 0);
    CHECK(osb_volume_created_us(volume) > INT64_C(1600000000000000));
    osb_answer_free(a);
    CHECK_EQ(osb_volume_create(client, "sdk-volume", NULL, NULL), -EBUSY);
    GOOD(osb_sandbox_create(client, &create, &box));
    GOOD(osb_file_put(box, "/data/x", "kept", 4, 0644));
    GOOD(osb_volume_get(client, "sdk-volume", &a));
    volume = osb_volume_at(a, 0);
    CHECK_STR(osb_volume_user(volume, 0), osb_sandbox_id(box));
    CHECK(!osb_volume_user(volume, 1));
    CHECK(osb_volume_used(volume) >= 0 && strstr(osb_volume_json(volume), "sdk-volume"));
    osb_answer_free(a);
    CHECK_EQ(osb_volume_delete(client, "sdk-volume"), -EBUSY);
    GOOD(osb_sandbox_delete(client, osb_sandbox_id(box)));
    osb_sandbox_free(box);
    box = NULL;
    GOOD(osb_volume_list(client, &(struct osb_filter){OSB_FILTER, .page_size = 10}, &a));
    CHECK_EQ(osb_volume_count(a), 1);
    osb_answer_free(a);
    GOOD(osb_volume_delete(client, "sdk-volume"));
    CHECK_EQ(osb_volume_get(client, "sdk-volume", &a), -ENOENT);
    CHECK_EQ(osb_volume_create(client, "sdk-volume", "a lot", NULL), -EINVAL);
    close_all();
}

/* --- forks, rollback, persistent sandboxes --- */

static void check_output(struct osb_sandbox *sb, const char *command, const char *expected)
{
    struct osb_execution *done;

    GOOD(osb_command_run(sb, &(struct osb_run){OSB_RUN, .command = command}, &done));
    CHECK_STR(osb_execution_stdout(done), expected);
    osb_execution_free(done);
}

TEST(sdk_states, forks_a_running_sandbox)
{
    struct osb_pair first[] = {
        {"KEPT", "1"},
        {"GONE", "2"}
    };
    struct osb_pair env[] = {
        {"GONE", NULL},
        {"NEW",  "3" }
    };
    struct osb_create create = {OSB_CREATE, .image = "host", .env = first, .env_count = 2};
    struct osb_fork fork = {OSB_FORK, .count = 2, .env = env, .env_count = 2};
    struct osb_sandbox *copy;
    struct osb_answer *a;

    open_client();
    GOOD(osb_sandbox_create(client, &create, &box));
    GOOD(osb_file_put(box, "/root/at-fork", "one", 3, 0644));
    GOOD(osb_sandbox_fork(client, osb_sandbox_id(box), &fork, &a));
    CHECK_EQ(osb_info_count(a), 2);
    for (size_t i = 0; i < osb_info_count(a); i++) {
        GOOD(osb_sandbox_connect(client, osb_info_id(osb_info_at(a, i)), &copy));
        GOOD(osb_sandbox_wait_ready(copy, 0, 0));
        check_output(copy, "cat /root/at-fork; echo; echo $KEPT[$GONE]$NEW", "one\n1[]3\n");
        GOOD(osb_sandbox_delete(client, osb_sandbox_id(copy)));
        osb_sandbox_free(copy);
    }
    osb_answer_free(a);
    fork.memory = true; /* the server is asked, and has no gVisor */
    CHECK(osb_sandbox_fork(client, osb_sandbox_id(box), &fork, &a) < 0);
    CHECK(strstr(osb_error_message(osb_client_error(client)), "memory"));
    CHECK(osb_snapshot_create_with(client, osb_sandbox_id(box),
                                   &(struct osb_snapshot){OSB_SNAPSHOT, .memory = true}, &a) < 0);
    CHECK(strstr(osb_error_message(osb_client_error(client)), "memory"));
    CHECK_EQ(osb_sandbox_fork(client, "no-such", NULL, &a), -ENOENT);
    close_all();
}

TEST(sdk_states, goes_back_stops_and_starts)
{
    struct osb_create create = {OSB_CREATE, .image = "host", .persistent = true};
    struct osb_answer *a;
    char snapshot[128];
    const char *id;

    open_client();
    GOOD(osb_sandbox_create(client, &create, &box));
    id = osb_sandbox_id(box);
    GOOD(osb_file_put(box, "/root/state", "old", 3, 0644));
    GOOD(osb_snapshot_create(client, id, "sdk", &a));
    snprintf(snapshot, sizeof(snapshot), "%s", osb_answer_text(a, "id"));
    osb_answer_free(a);
    for (bool ready = false; !ready;) {
        GOOD(osb_snapshot_get(client, snapshot, &a));
        ready = strcmp(osb_answer_text(a, "status.state"), "Ready") == 0;
        osb_answer_free(a);
        GOOD(osb_sleep(client, 20));
    }
    GOOD(osb_file_put(box, "/root/state", "new", 3, 0644));
    GOOD(osb_sandbox_rollback(client, id, snapshot));
    GOOD(osb_sandbox_wait_ready(box, 0, 0));
    check_output(box, "cat /root/state", "old\n");
    GOOD(osb_file_put(box, "/root/state", "kept", 4, 0644));
    GOOD(osb_sandbox_stop(client, id));
    GOOD(osb_sandbox_get(client, id, &a));
    CHECK_STR(osb_info_reason(osb_info_at(a, 0)), "STOPPED");
    osb_answer_free(a);
    GOOD(osb_sandbox_start(client, id));
    GOOD(osb_sandbox_wait_ready(box, 0, 0));
    check_output(box, "cat /root/state", "kept\n");
    CHECK_EQ(osb_sandbox_rollback(client, id, "no-such"), -ENOENT);
    GOOD(osb_snapshot_delete(client, snapshot));
    close_all();
}

/* --- egress --- */

TEST(sdk_egress, reads_and_changes_a_policy)
{
    const struct osb_rule more[] = {
        {"allow", "b.example"},
        {"deny",  "a.example"}
    };
    const char *gone[] = {"b.example", "unknown.example"};
    struct osb_create create = {OSB_CREATE, .image = "host",
                                .network_policy = "{\"defaultAction\":\"deny\",\"egress\":[{"
                                                  "\"action\":\"allow\",\"target\":"
                                                  "\"a.example\"}]}"};
    struct osb_answer *a;

    open_client();
    GOOD(osb_sandbox_create(client, &create, &box));
    GOOD(osb_egress_get(box, &a));
    CHECK_STR(osb_answer_text(a, "policy.defaultAction"), "deny");
    CHECK_STR(osb_answer_text(a, "policy.egress[0].target"), "a.example");
    osb_answer_free(a);
    GOOD(osb_egress_patch(box, more, 2, NULL));
    GOOD(osb_egress_get(box, &a));
    CHECK_EQ(osb_answer_count(a, "policy.egress"), 2);
    osb_answer_free(a);
    GOOD(osb_egress_delete(box, gone, 2, NULL));
    GOOD(osb_egress_get(box, &a));
    CHECK_EQ(osb_answer_count(a, "policy.egress"), 1);
    CHECK_STR(osb_answer_text(a, "policy.egress[0].action"), "deny");
    osb_answer_free(a);
    GOOD(osb_egress_set(box, "{\"defaultAction\":\"allow\",\"egress\":[]}", &a));
    osb_answer_free(a);
    GOOD(osb_egress_get(box, &a));
    CHECK_STR(osb_answer_text(a, "policy.defaultAction"), "allow");
    osb_answer_free(a);
    CHECK_EQ(osb_egress_set(box, "no policy", NULL), -EINVAL);
    CHECK_EQ(osb_egress_patch(box, &(struct osb_rule){"perhaps", "a.example"}, 1, NULL), -EINVAL);
    close_all();
}

TEST(sdk_egress, has_a_vault)
{
    const char *hosts[] = {"a.example", NULL}, *gone[] = {"one", NULL}, *paths[] = {"/v1/*", NULL};
    const struct osb_credential one = {"first key", "s3cr3t-1"}, two = {"two", "s3cr3t-2"};
    const struct osb_pair headers = {"X-Two", "two"};
    const struct osb_binding bearer = {
        .name = "one", .hosts = hosts, .type = "bearer", .credential = "first key"};
    const struct osb_binding custom = {.name = "two",
                                       .hosts = hosts,
                                       .paths = paths,
                                       .type = "customHeaders",
                                       .headers = &headers,
                                       .header_count = 1};
    const struct osb_vault_change change = {OSB_VAULT_CHANGE,        .expected_revision = 1,
                                            .add_credentials = &two, .add_credential_count = 1,
                                            .add_bindings = &custom, .add_binding_count = 1,
                                            .delete_bindings = gone};
    struct osb_create create = {OSB_CREATE, .image = "host", .credential_proxy = true,
                                .network_policy = "{\"defaultAction\":\"deny\",\"egress\":[{"
                                                  "\"action\":\"allow\",\"target\":"
                                                  "\"a.example\"}]}"};
    struct osb_answer *a;

    open_client();
    GOOD(osb_sandbox_create(client, &create, &box));
    CHECK_EQ(osb_vault_get(box, NULL), -ENOENT);
    GOOD(osb_vault_create(box, &one, 1, &bearer, 1, &a));
    CHECK_STR(osb_answer_text(a, "bindings[0].auth.type"), "bearer");
    osb_answer_free(a);
    CHECK_EQ(osb_vault_create(box, &one, 1, &bearer, 1, NULL), -EBUSY);
    GOOD(osb_vault_get_credential(box, "first key", &a));
    CHECK_STR(osb_answer_text(a, "sourceType"), "inline");
    osb_answer_free(a);
    GOOD(osb_vault_patch(box, &change, &a));
    CHECK_EQ(osb_answer_int(a, "revision", 0), 2);
    CHECK_EQ(osb_answer_count(a, "credentials"), 2);
    CHECK_EQ(osb_answer_count(a, "bindings"), 1);
    CHECK(!strstr(osb_answer_body(a, NULL), "s3cr3t"));
    osb_answer_free(a);
    CHECK_EQ(osb_vault_patch(box, &change, NULL), -EBUSY);
    GOOD(osb_vault_get_binding(box, "two", &a));
    CHECK_STR(osb_answer_text(a, "match.paths[0]"), "/v1/*");
    osb_answer_free(a);
    GOOD(osb_vault_delete(box));
    CHECK_EQ(osb_vault_get(box, NULL), -ENOENT);
    close_all();
}

TEST(sdk_egress, gives_a_secret_that_is_not_inside)
{
    const char *hosts[] = {"a.example", NULL};
    const struct osb_secret secret = {"API_KEY", "s3cr3t-3", hosts};
    struct osb_create create = {OSB_CREATE, .image = "host", .secrets = &secret, .secret_count = 1};
    struct osb_execution *done;
    struct osb_answer *a;

    open_client();
    GOOD(osb_sandbox_create(client, &create, &box));
    GOOD(osb_command_run(box, &(struct osb_run){OSB_RUN, .command = "echo $API_KEY"}, &done));
    CHECK(strncmp(osb_execution_stdout(done), "osb_secret_", 11) == 0);
    osb_execution_free(done);
    GOOD(osb_sandbox_get(client, osb_sandbox_id(box), &a));
    CHECK_STR(osb_answer_text(a, "secretEnv.API_KEY.hosts[0]"), "a.example");
    CHECK(!strstr(osb_answer_body(a, NULL), "s3cr3t"));
    osb_answer_free(a);
    close_all();
}
