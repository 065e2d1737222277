/* cmd_sandbox.c - osb sandbox: what makes, shows and ends sandboxes. */
#include "osb/commands.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/time.h"

/* --- create --- */

/* The policy of a file, with the name of its first key as the API has it. */
static int fill_policy(struct cli *cli, struct osb_create *create)
{
    const char *path = cli_text(cli, "network-policy-file");
    const struct json *v;

    create->credential_proxy = cli_flag(cli, "credential-proxy");
    if (create->credential_proxy && !path)
        return cli_error(cli, "Usage",
                         "--credential-proxy requires --network-policy-file: what it injects goes "
                         "through the egress policy.");
    if (!path)
        return 0;
    v = cli_read_json(cli, path);
    if (!v)
        return EXIT_FAILED;
    if (v->type != JSON_OBJECT)
        return cli_error(cli, "File", "'%s' must contain a JSON object.", path);
    create->network_policy = cli_read_file(cli, path).p;
    return create->network_policy ? 0 : EXIT_FAILED;
}

static const char *text_of(const struct json *object, const char *camel, const char *snake)
{
    const struct json *v = json_get(object, str_of(camel));
    struct str text;

    if (!v)
        v = json_get(object, str_of(snake));
    return json_to_str(v, &text) == 0 ? text.p : NULL;
}

static bool bool_of(const struct json *object, const char *camel, const char *snake)
{
    const struct json *v = json_get(object, str_of(camel));
    bool value = false;

    return json_to_bool(v ? v : json_get(object, str_of(snake)), &value) == 0 && value;
}

/* Volumes of a file, then those of -v: [HOST_PATH|NAME:]MOUNT_PATH[:ro]. */
static int fill_volumes(struct cli *cli, struct osb_create *create)
{
    const char *path = cli_text(cli, "volumes-file");
    size_t count = 0;
    const char *const *inline_ones = cli_texts(cli, "volume", &count);
    const struct json *list = path ? cli_read_json(cli, path) : NULL;
    struct osb_volume *volumes;
    size_t n = 0;

    if (path && !list)
        return EXIT_FAILED;
    if (list && list->type != JSON_ARRAY)
        return cli_error(cli, "File", "Volumes file must contain a JSON array, got %s.",
                         json_type_name(list));
    volumes = arena_new_array(&cli->arena, struct osb_volume, json_count(list) + count + 1);
    if (!volumes)
        return cli_error(cli, "Memory", "too many volumes");
    json_each(v, list)
    {
        const struct json *pvc = json_get(v, STR("pvc"));

        volumes[n++] = (struct osb_volume){
            .name = text_of(v, "name", "name"),
            .mount_path = text_of(v, "mountPath", "mount_path"),
            .sub_path = text_of(v, "subPath", "sub_path"),
            .read_only = bool_of(v, "readOnly", "read_only"),
            .host_path = text_of(json_get(v, STR("host")), "path", "path"),
            .claim_name = text_of(pvc, "claimName", "claim_name"),
            .create_if_missing = bool_of(pvc, "createIfNotExists", "create_if_not_exists"),
            .delete_with_sandbox =
                bool_of(pvc, "deleteOnSandboxTermination", "delete_on_sandbox_termination"),
        };
    }
    for (size_t i = 0; i < count; i++) {
        struct str rest = str_of(inline_ones[i]), from, to;

        str_cut(&rest, ':', &from);
        if (!str_cut(&rest, ':', &to) || from.n == 0 || to.n == 0 || to.p[0] != '/' ||
            (rest.p && !str_eq(rest, STR("ro"))))
            return cli_error(cli, "Usage",
                             "'%s' is no volume. Write /host/path:/mount/path[:ro] or "
                             "NAME:/mount/path[:ro].",
                             inline_ones[i]);
        volumes[n] = (struct osb_volume){
            .name = arena_printf(&cli->arena, "volume-%zu", i + 1),
            .mount_path = arena_strdup(&cli->arena, to),
            .read_only = rest.p != NULL,
        };
        if (from.p[0] == '/')
            volumes[n].host_path = arena_strdup(&cli->arena, from);
        else
            volumes[n].claim_name = arena_strdup(&cli->arena, from);
        volumes[n++].create_if_missing = from.p[0] != '/';
    }
    create->volumes = n ? volumes : NULL;
    create->volume_count = n;
    return 0;
}

static int secret_value(struct cli *cli, struct osb_secret *secret, const char *path)
{
    struct str text;

    if (!path) {
        secret->value = getenv(secret->name);
        return secret->value ? 0
                             : cli_error(cli, "Usage",
                                         "There is no variable '%s' to take the secret from. Set "
                                         "it, or write --secret %s=FILE@HOST.",
                                         secret->name, secret->name);
    }
    text = cli_read_file(cli, path);
    if (!text.p)
        return EXIT_FAILED;
    while (text.n && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r'))
        text.n--;
    secret->value = arena_strdup(&cli->arena, text);
    return secret->value ? 0 : cli_error(cli, "Memory", "'%s' is too large", path);
}

/* NAME[=FILE]@HOST[,HOST]: no value on the command line, where others see it. */
static int read_secret(struct cli *cli, const char *text, struct osb_secret *ret)
{
    const char *at = strrchr(text, '@'), **hosts;
    struct str name = str_make(text, at ? (size_t)(at - text) : 0), path = STR_NONE, host;
    struct str list = str_of(at ? at + 1 : "");
    size_t equals = str_find(name, '='), n = 0;

    if (equals < name.n) {
        path = str_skip(name, equals + 1);
        name.n = equals;
    }
    hosts = arena_new_array(&cli->arena, const char *, list.n + 2);
    if (name.n == 0 || list.n == 0 || (path.p && path.n == 0) || !hosts)
        return cli_error(cli, "Usage",
                         "'%s' is no secret. Write NAME@HOST[,HOST] for the variable NAME of your "
                         "environment, or NAME=FILE@HOST[,HOST].",
                         text);
    while (str_cut(&list, ',', &host))
        if (str_trim(host).n)
            hosts[n++] = arena_strdup(&cli->arena, str_trim(host));
    ret->name = arena_strdup(&cli->arena, name);
    ret->hosts = hosts;
    return secret_value(cli, ret, path.p ? arena_strdup(&cli->arena, path) : NULL);
}

static int fill_secrets(struct cli *cli, struct osb_create *create)
{
    size_t count = 0;
    const char *const *texts = cli_texts(cli, "secret", &count);
    struct osb_secret *secrets = arena_new_array(&cli->arena, struct osb_secret, count + 1);
    int r = secrets ? 0 : cli_error(cli, "Memory", "too many secrets");

    for (size_t i = 0; r == 0 && i < count; i++)
        r = read_secret(cli, texts[i], &secrets[i]);
    create->secrets = secrets;
    create->secret_count = count;
    return r;
}

int cli_default_timeout(struct cli *cli, int64_t *ret_seconds)
{
    const char *text = cli->settings.timeout;

    *ret_seconds = 0;
    if (!text)
        return 0;
    if (str_eq_nocase(str_of(text), STR("none")))
        *ret_seconds = -1;
    else if (duration_parse(str_of(text), ret_seconds) < 0)
        return cli_error(cli, "Configuration",
                         "defaults.timeout is '%s'; write 90s, 10m, 1h30m or none.", text);
    return 0;
}

static int fill_timeout(struct cli *cli, struct osb_create *create)
{
    if (!cli_text(cli, "timeout"))
        return cli_default_timeout(cli, &create->timeout_s);
    create->timeout_s = cli_number(cli, "timeout", 0);
    return 0;
}

static void fill_extensions(struct cli *cli, struct osb_create *create, const char *pool)
{
    size_t n = 0;
    const struct osb_pair *given = cli_pairs(cli, "extension", &n);
    struct osb_pair *all = arena_new_array(&cli->arena, struct osb_pair, n + 1);

    if (!all)
        return;
    for (size_t i = 0; i < n; i++)
        all[i] = given[i];
    if (pool)
        all[n++] = (struct osb_pair){"poolRef", pool};
    create->extensions = n ? all : NULL;
    create->extension_count = n;
}

int cli_fill_create(struct cli *cli, struct osb_create *create)
{
    const char *pool = cli_text(cli, "pool");
    int r;

    create->image = cli_text(cli, "image");
    create->snapshot_id = cli_text(cli, "snapshot-id");
    if (create->image && create->snapshot_id)
        return cli_error(cli, "Usage", "--snapshot-id and --image are mutually exclusive.");
    if (!create->image && !create->snapshot_id && !pool)
        create->image = cli->settings.image;
    if (!create->image && !create->snapshot_id && !pool)
        return cli_error(cli, "Usage",
                         "Sandbox image is required. Pass --image, or set defaults.image in the "
                         "CLI config: osb config set defaults.image python:3.12");
    create->image_user = cli_text(cli, "image-auth-username");
    create->image_password = cli_text(cli, "image-auth-password");
    if (!create->image_user != !create->image_password)
        return cli_error(cli, "Usage",
                         "Pass both --image-auth-username and --image-auth-password together.");
    r = fill_timeout(cli, create);
    if (r == 0)
        r = fill_policy(cli, create);
    if (r == 0)
        r = fill_secrets(cli, create);
    if (r == 0)
        r = fill_volumes(cli, create);
    if (r)
        return r;
    create->env = cli_pairs(cli, "env", &create->env_count);
    create->metadata = cli_pairs(cli, "metadata", &create->metadata_count);
    fill_extensions(cli, create, pool);
    create->resources = cli_pairs(cli, "resource", &create->resource_count);
    create->entrypoint = cli_texts(cli, "entrypoint", NULL);
    create->secure_access = cli_flag(cli, "secure-access");
    create->persistent = cli_flag(cli, "persistent");
    create->pull_policy = cli_text(cli, "pull");
    create->no_wait = cli_flag(cli, "skip-health-check");
    create->ready_timeout_ms = (uint32_t)(cli_number(cli, "ready-timeout", 0) * 1000);
    return 0;
}

int sandbox_create(struct cli *cli)
{
    const char *file = cli_text(cli, "file"), *template = NULL;
    struct osb_create create = {OSB_CREATE};
    struct doc doc;
    char timeout[32];
    int r = file || cli_text(cli, "template") ? cli_fill_request(cli, &create, &template)
                                              : cli_fill_create(cli, &create);

    if (r)
        return r;
    create.idempotency_key = cli_text(cli, "idempotency-key");
    if (osb_sandbox_create(cli->client, &create, &cli->sandbox) < 0)
        return cli_failed(cli);
    if (cli_flag(cli, "quiet")) {
        const char *id = arena_printf(&cli->arena, "%s\n", osb_sandbox_id(cli->sandbox));

        return cli_write(id, strlen(id)) < 0 ? EXIT_FAILED : EXIT_OK;
    }
    if (create.timeout_s > 0)
        snprintf(timeout, sizeof(timeout), "%lld:%02lld:%02lld",
                 (long long)(create.timeout_s / 3600), (long long)(create.timeout_s / 60 % 60),
                 (long long)(create.timeout_s % 60));
    doc_begin(&doc);
    doc_text(&doc, "id", osb_sandbox_id(cli->sandbox));
    doc_text(&doc, "status", "created");
    doc_text(&doc, "timeout",
             create.timeout_s > 0   ? timeout
             : create.timeout_s < 0 ? "manual-cleanup"
                                    : "sdk-default");
    if (file)
        doc_text(&doc, "request_file", file);
    if (template)
        doc_text(&doc, "template", template);
    else if (create.snapshot_id)
        doc_text(&doc, "snapshot_id", create.snapshot_id);
    else
        doc_text(&doc, "image", create.image);
    return cli_panel(cli, "Sandbox Created", &doc);
}

/* --- list and get --- */

/* With status and image as plain columns, for tables. */
static void write_flat(struct json_writer *w, const struct json *v, bool all)
{
    const struct json *status = json_get(v, STR("status")), *image = json_get(v, STR("image"));
    static const struct {
        const char *name, *key;
    } rest[] = {
        {"snapshot_id", "snapshotId"},
        {"platform",    "platform"  },
        {"entrypoint",  "entrypoint"},
        {"metadata",    "metadata"  },
        {"secret_env",  "secretEnv" }
    };
    static const struct {
        const char *name, *key;
    } times[] = {
        {"created_at", "createdAt"},
        {"expires_at", "expiresAt"}
    };
    struct str text = STR("-");

    json_write_object(w);
    json_to_str(json_get(v, STR("id")), &text);
    json_member_string(w, STR("id"), text);
    text = STR("-");
    json_to_str(json_get(status, STR("state")), &text);
    json_member_string(w, STR("status"), text);
    if (all && json_to_str(json_get(status, STR("reason")), &text) == 0)
        json_member_string(w, STR("status_reason"), text);
    if (all && json_to_str(json_get(status, STR("message")), &text) == 0)
        json_member_string(w, STR("status_message"), text);
    text = STR("-");
    json_to_str(json_get(image, STR("uri")), &text);
    json_member_string(w, STR("image"), text);
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        text = STR("-");
        json_to_str(json_get(v, str_of(times[i].key)), &text);
        json_member_string(w, str_of(times[i].name), text);
    }
    for (size_t i = 0; all && i < ARRAY_LEN(rest); i++)
        if (json_get(v, str_of(rest[i].key))) {
            json_write_key(w, str_of(rest[i].name));
            json_write_value(w, json_get(v, str_of(rest[i].key)));
        }
    json_write_object_end(w);
}

static int fill_states(struct cli *cli, struct osb_filter *filter)
{
    static const char names[] =
        "Failed, Paused, Pausing, Pending, Running, Stopping, Terminated, Unknown";
    size_t n = 0;
    const char *const *given = cli_texts(cli, "state", &n);
    const char **states = arena_new_array(&cli->arena, const char *, n + 1);

    for (size_t i = 0; states && i < n; i++) {
        struct str rest = str_of(names), name;

        while (str_cut(&rest, ',', &name))
            if (str_eq_nocase(str_trim(name), str_trim(str_of(given[i]))))
                states[i] = arena_strdup(&cli->arena, str_trim(name));
        if (!states[i])
            return cli_error(cli, "Usage", "Invalid sandbox state '%s'. Valid values: %s", given[i],
                             names);
    }
    filter->states = n ? states : NULL;
    return 0;
}

/* A line per sandbox, for other programs: of all pages, unless one was asked for. */
static int print_ids(struct cli *cli, const struct osb_filter *filter)
{
    bool one_page = filter->page || filter->page_size;
    struct osb_iterator *iterator = NULL;
    struct osb_answer *page = NULL;
    const struct osb_info *info;
    AUTO_BUF(out, DOC_BYTES_MAX);
    int r = one_page ? osb_sandbox_list(cli->client, filter, &page)
                     : osb_iterator_new(cli->client, filter, &iterator);

    for (size_t i = 0; page && i < osb_info_count(page); i++)
        buf_addf(&out, "%s\n", osb_info_id(osb_info_at(page, i)));
    while (r >= 0 && iterator && (r = osb_iterator_next(iterator, &info)) > 0)
        buf_addf(&out, "%s\n", osb_info_id(info));
    if (iterator)
        osb_iterator_free(iterator);
    osb_answer_free(page);
    if (r < 0)
        return cli_failed(cli);
    return cli_write(out.p, out.n) < 0 ? EXIT_FAILED : EXIT_OK;
}

/* A table shows one page. That there are more is said beside it, not among the rows. */
static void tell_of_more(const struct json *pagination)
{
    int64_t page = 1, pages = 1;

    if (json_to_i64(json_get(pagination, STR("page")), &page) == 0 &&
        json_to_i64(json_get(pagination, STR("totalPages")), &pages) == 0 && page < pages)
        fprintf(stderr, "Page %lld of %lld; --page %lld shows the next.\n", (long long)page,
                (long long)pages, (long long)page + 1);
}

int sandbox_list(struct cli *cli)
{
    struct osb_filter filter = {OSB_FILTER};
    struct osb_answer *answer = NULL;
    const struct json *v, *items;
    struct doc doc;
    int r = fill_states(cli, &filter);

    if (r)
        return r;
    filter.metadata = cli_pairs(cli, "metadata", &filter.metadata_count);
    filter.page = (uint32_t)cli_number(cli, "page", 0);
    filter.page_size = (uint32_t)cli_number(cli, "page-size", 0);
    if (cli_flag(cli, "quiet"))
        return print_ids(cli, &filter);
    if (osb_sandbox_list(cli->client, &filter, &answer) < 0)
        return cli_failed(cli);
    v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
    osb_answer_free(answer);
    items = json_get(v, STR("items"));
    if (cli->format == FORMAT_TABLE) {
        if (json_count(items) == 0)
            return cli_info(cli, "No sandboxes found.");
        doc_begin_array(&doc);
        json_each(item, items) write_flat(&doc.w, item, false);
        r = cli_rows(cli, "Sandboxes", "id status image created_at expires_at", &doc);
        tell_of_more(json_get(v, STR("pagination")));
        return r;
    }
    doc_begin(&doc);
    json_write_key(&doc.w, STR("items"));
    json_write_array(&doc.w);
    json_each(item, items) shape_write(&doc.w, item, SHAPE_SANDBOX);
    json_write_array_end(&doc.w);
    json_write_key(&doc.w, STR("pagination"));
    shape_write(&doc.w, json_get(v, STR("pagination")), SHAPE_PAGE);
    return cli_object(cli, NULL, &doc);
}

/* An object that a function wrote, as a document of its own. */
static void doc_open(struct doc *doc)
{
    buf_init(&doc->text, DOC_BYTES_MAX);
    json_write_begin(&doc->w, &doc->text);
}

int sandbox_get(struct cli *cli)
{
    struct osb_answer *answer = NULL;
    const struct json *v;
    struct doc doc;

    if (osb_sandbox_get(cli->client, cli_argument(cli, 0), &answer) < 0)
        return cli_failed(cli);
    v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
    osb_answer_free(answer);
    doc_open(&doc);
    if (cli->format == FORMAT_TABLE)
        write_flat(&doc.w, v, true);
    else
        shape_write(&doc.w, v, SHAPE_SANDBOX);
    return cli_object(cli, "Sandbox Info", &doc);
}

/* --- changes --- */

/* Goes on after a failure; every id has its row. */
int sandbox_kill(struct cli *cli)
{
    const char *const *ids = cli_arguments(cli, 0);
    int status = EXIT_OK;
    struct doc doc;

    doc_begin_array(&doc);
    for (size_t i = 0; ids[i]; i++) {
        int r = osb_sandbox_delete(cli->client, ids[i]);

        if (r < 0)
            status = cli_failed(cli);
        json_write_object(&doc.w);
        doc_text(&doc, "sandbox_id", ids[i]);
        doc_text(&doc, "status", r < 0 ? "error" : "terminated");
        json_write_object_end(&doc.w);
    }
    cli_rows(cli, "Terminated Sandboxes", "sandbox_id status", &doc);
    return status;
}

int sandbox_pause(struct cli *cli)
{
    const char *id = cli_argument(cli, 0);

    if (osb_sandbox_pause(cli->client, id) < 0)
        return cli_failed(cli);
    return cli_message(cli, "Sandbox paused: %s", id);
}

int sandbox_resume(struct cli *cli)
{
    const char *id = cli_argument(cli, 0);
    int64_t seconds = cli_number(cli, "resume-timeout", 0);
    int r;

    if (osb_sandbox_resume(cli->client, id) < 0)
        return cli_failed(cli);
    if (!cli_flag(cli, "skip-health-check")) {
        r = cli_connect(cli);
        if (r)
            return r;
        if (osb_sandbox_wait_ready(cli->sandbox, (uint32_t)(seconds * 1000), 0) < 0)
            return cli_failed(cli);
    }
    return cli_message(cli, "Sandbox resumed: %s", id);
}

int sandbox_renew(struct cli *cli)
{
    const char *id = cli_argument(cli, 0);
    struct osb_answer *answer = NULL;
    struct doc doc;

    if (osb_sandbox_renew(cli->client, id, cli_number(cli, "timeout", 0), &answer) < 0)
        return cli_failed(cli);
    doc_begin(&doc);
    doc_text(&doc, "sandbox_id", id);
    doc_text(&doc, "expires_at", osb_answer_text(answer, "expiresAt"));
    osb_answer_free(answer);
    return cli_panel(cli, "Sandbox Renewed", &doc);
}

/* KEY=VALUE sets, KEY alone removes. */
int sandbox_metadata(struct cli *cli)
{
    const char *const *words = cli_arguments(cli, 1);
    struct osb_answer *answer = NULL;
    struct osb_pair *pairs = arena_new_array(&cli->arena, struct osb_pair, 4096);
    size_t n = 0;
    struct doc doc;
    int r;

    for (; pairs && words[n] && n < 4096; n++) {
        struct str rest = str_of(words[n]), key;

        str_cut(&rest, '=', &key);
        pairs[n] = (struct osb_pair){arena_strdup(&cli->arena, key), rest.p};
    }
    r = n ? osb_sandbox_patch_metadata(cli->client, cli_argument(cli, 0), pairs, n, &answer)
          : osb_sandbox_get(cli->client, cli_argument(cli, 0), &answer);
    if (r < 0)
        return cli_failed(cli);
    doc_begin(&doc);
    doc_text(&doc, "sandbox_id", cli_argument(cli, 0));
    json_write_key(&doc.w, STR("metadata"));
    if (osb_answer_has(answer, "metadata"))
        json_write_raw(&doc.w, str_of(osb_answer_text(answer, "metadata")));
    else
        json_write_null(&doc.w);
    osb_answer_free(answer);
    return cli_object(cli, "Metadata", &doc);
}

/* --- looking inside --- */

int sandbox_endpoint(struct cli *cli)
{
    const char *id = cli_argument(cli, 0);
    uint16_t port = (uint16_t)cli_number(cli, "port", 0);
    int64_t seconds = cli_number(cli, "signed", 0);
    struct osb_answer *answer = NULL;
    struct doc doc;
    int r = seconds ? osb_endpoint_get_signed(cli->client, id, port,
                                              time_wall_us() / TIME_US_PER_S + seconds, &answer)
                    : osb_endpoint_get(cli->client, id, port, &answer);

    if (r < 0)
        return cli_failed(cli);
    doc_begin(&doc);
    doc_text(&doc, "endpoint", osb_answer_text(answer, "endpoint"));
    json_write_key(&doc.w, STR("headers"));
    json_write_raw(&doc.w, osb_answer_has(answer, "headers")
                               ? str_of(osb_answer_text(answer, "headers"))
                               : STR("{}"));
    doc_text(&doc, "origin", osb_answer_text(answer, "origin"));
    osb_answer_free(answer);
    return cli_object(cli, "Endpoint", &doc);
}

/* Unlike the original, fails when the sandbox is not healthy, so that scripts can ask. */
int sandbox_health(struct cli *cli)
{
    const char *id = cli_argument(cli, 0);
    struct doc doc;
    bool healthy;
    int r = cli_connect(cli);

    if (r)
        return r;
    healthy = osb_sandbox_is_healthy(cli->sandbox) == 1;
    if (cli->format == FORMAT_TABLE) {
        if (healthy)
            return cli_message(cli, "Sandbox %s is healthy", id);
        return cli_error(cli, "Unhealthy", "Sandbox %s is unhealthy", id);
    }
    doc_begin(&doc);
    doc_text(&doc, "sandbox_id", id);
    json_member_bool(&doc.w, STR("healthy"), healthy);
    cli_object(cli, NULL, &doc);
    return healthy ? EXIT_OK : EXIT_FAILED;
}

static void write_metrics(struct json_writer *w, const struct osb_metrics *m)
{
    json_member_double(w, STR("cpu_count"), m->cpu_count);
    json_member_double(w, STR("cpu_used_percentage"), m->cpu_used_percent);
    json_member_double(w, STR("memory_total_in_mib"), m->memory_total_mib);
    json_member_double(w, STR("memory_used_in_mib"), m->memory_used_mib);
    json_member_i64(w, STR("timestamp"), m->timestamp_ms);
}

static int print_sample(void *user, const struct osb_metrics *m)
{
    struct cli *cli = user;
    char at[TIME_TEXT_MAX];
    struct doc doc;
    AUTO_BUF(out, 4096);

    if (cli->format == FORMAT_RAW || cli->format == FORMAT_TABLE) {
        time_format_ms(m->timestamp_ms * TIME_US_PER_MS, at);
        buf_addf(&out, "[%s] cpu=%.2f%% cores=%g mem=%.1f/%.1fMiB\n", at, m->cpu_used_percent,
                 m->cpu_count, m->memory_used_mib, m->memory_total_mib);
        return cli_write(out.p, out.n);
    }
    doc_begin(&doc);
    write_metrics(&doc.w, m);
    if (cli->format == FORMAT_YAML) {
        if (cli_write("---\n", 4) < 0)
            return -EPIPE;
        return cli_object(cli, NULL, &doc);
    }
    json_write_object_end(&doc.w);
    if (json_write_end(&doc.w) == 0)
        buf_add(&out, buf_str(&doc.text));
    buf_add_char(&out, '\n');
    doc_done(&doc);
    return cli_write(out.p, out.n);
}

int sandbox_metrics(struct cli *cli)
{
    struct osb_metrics m;
    struct doc doc;
    int r = cli_connect(cli);

    if (r)
        return r;
    if (cli_flag(cli, "watch")) {
        (void)cli_interruptible(cli, true);
        r = osb_metrics_watch(cli->sandbox, print_sample, cli);
        return cli_interruptible(cli, false) || r >= 0 ? EXIT_OK : cli_failed(cli);
    }
    if (osb_metrics_get(cli->sandbox, &m) < 0)
        return cli_failed(cli);
    if (cli->format == FORMAT_RAW)
        return print_sample(cli, &m) < 0 ? EXIT_FAILED : EXIT_OK;
    doc_begin(&doc);
    write_metrics(&doc.w, &m);
    return cli_object(cli, "Sandbox Metrics", &doc);
}

/* --- top --- */

enum { TOP_SANDBOXES_MAX = 200 };

static int print_top(struct cli *cli)
{
    static const char *const running[] = {"Running", NULL};
    struct osb_filter filter = {OSB_FILTER, .states = running, .page_size = TOP_SANDBOXES_MAX};
    struct osb_answer *page = NULL;
    AUTO_BUF(out, DOC_BYTES_MAX);
    int64_t more;

    if (osb_sandbox_list(cli->client, &filter, &page) < 0)
        return cli_failed(cli);
    if (!cli_flag(cli, "once") && isatty(STDOUT_FILENO))
        buf_add(&out, STR("\033[H\033[2J"));
    buf_addf(&out, "%-38s %-24s %8s %18s\n", "ID", "IMAGE", "CPU %", "MEMORY MiB");
    for (size_t i = 0; i < osb_info_count(page); i++) {
        const struct osb_info *info = osb_info_at(page, i);
        struct osb_sandbox *box = NULL;
        struct osb_metrics m;

        if (osb_sandbox_connect(cli->client, osb_info_id(info), &box) == 0 &&
            osb_metrics_get(box, &m) == 0)
            buf_addf(&out, "%-38s %-24.24s %8.1f %9.1f/%8.1f\n", osb_info_id(info),
                     osb_info_image(info), m.cpu_used_percent, m.memory_used_mib,
                     m.memory_total_mib);
        else
            buf_addf(&out, "%-38s %-24.24s does not answer\n", osb_info_id(info),
                     osb_info_image(info));
        osb_sandbox_free(box);
    }
    more = osb_answer_int(page, "pagination.totalItems", 0) - (int64_t)osb_info_count(page);
    if (more > 0)
        buf_addf(&out, "and %lld more\n", (long long)more);
    osb_answer_free(page);
    return cli_write(out.p, out.n) < 0 ? EXIT_FAILED : EXIT_OK;
}

/* Until Ctrl-C, which ends the call in progress or the next one. */
int top(struct cli *cli)
{
    int r;

    cli_interruptible(cli, !cli_flag(cli, "once"));
    do
        r = print_top(cli);
    while (r == EXIT_OK && !cli_flag(cli, "once") && osb_sleep(cli->client, 1000) >= 0);
    return cli_interruptible(cli, false) ? EXIT_OK : r;
}
