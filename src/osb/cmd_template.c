/* cmd_template.c - osb template, and requests of `sandbox create` that come from a file or start
 * from a template. Templates are of servers that build golden images; ours has none. */
#include "osb/commands.h"

#include "base/url.h"

enum { REQUEST_BYTES_MAX = 16 * 1024 * 1024, LIST_PATH_BYTES_MAX = 64 * 1024, TIMEOUT_S = 600 };

/* --- what does not go together --- */

/* Says which of these options were given together with `with`. */
static int refuse_with(struct cli *cli, const char *with, const char *const *options, size_t count)
{
    AUTO_BUF(list, 4096);

    for (size_t i = 0; i < count; i++)
        if (parsed_value(&cli->line, options[i]))
            buf_addf(&list, "%s--%s", list.n ? ", " : "", options[i]);
    return list.n ? cli_error(cli, "Usage", "%s cannot be combined with: %s.", with, list.p) : 0;
}

static bool is_one_of(struct str key, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(key, str_of(names[i])))
            return true;
    return false;
}

/* A request file: an object with no other members than these. */
static const struct json *read_request(struct cli *cli, const char *path, const char *const *known,
                                       size_t count)
{
    const struct json *v = cli_read_json(cli, path);

    if (!v)
        return NULL;
    if (v->type != JSON_OBJECT) {
        cli_error(cli, "File", "Request file '%s' must contain a JSON object.", path);
        return NULL;
    }
    json_each(member, v) if (!is_one_of(member->key, known, count))
    {
        cli_error(cli, "File", "Request file '%s' has an unsupported field: %.*s.", path,
                  STR_ARG(member->key));
        return NULL;
    }
    return v;
}

static bool has(const struct json *object, const char *key)
{
    const struct json *v = json_get(object, str_of(key));

    return v && v->type != JSON_NULL;
}

/* The text of a member that must not be blank; NULL after it said so. */
static const char *text_member(struct cli *cli, const char *path, const struct json *v,
                               const char *key)
{
    struct str text;

    if (json_to_str(v, &text) == 0 && str_trim(text).n)
        return arena_strdup(&cli->arena, text);
    cli_error(cli, "File", "Request file field '%s' in '%s' must be a string that is not blank.",
              key, path);
    return NULL;
}

/* --- requests --- */

static void write_map(struct cli *cli, struct json_writer *w, const char *option, const char *key)
{
    size_t n = 0;
    const struct osb_pair *pairs = cli_pairs(cli, option, &n);

    if (n == 0)
        return;
    json_write_key(w, str_of(key));
    json_write_object(w);
    for (size_t i = 0; i < n; i++)
        json_member_string(w, str_of(pairs[i].name), str_of(pairs[i].value));
    json_write_object_end(w);
}

static void write_texts(struct json_writer *w, const char *key, const char *const *texts)
{
    if (!texts)
        return;
    json_write_key(w, str_of(key));
    json_write_array(w);
    for (; *texts; texts++)
        json_write_string(w, str_of(*texts));
    json_write_array_end(w);
}

/* Ends the request, in the arena; NULL after it said why not. */
static const char *request_end(struct cli *cli, struct json_writer *w, struct buf *text)
{
    const char *request = NULL;

    json_write_object_end(w);
    if (json_write_end(w) == 0)
        request = arena_strdup(&cli->arena, buf_str(text));
    if (!request)
        cli_error(cli, "File", "The request is too long.");
    return request;
}

/* --- sandbox create --file --- */

static const char *const request_fields[] = {
    "image",          "templateId", "snapshotId",    "platform",     "timeout",
    "resourceLimits", "env",        "metadata",      "lifecycle",    "resourceRequests",
    "entrypoint",     "volumes",    "networkPolicy", "secureAccess", "credentialProxy",
    "extensions",     "persistent", "secretEnv",     "onExpiry",
};
/* A template decides these. */
static const char *const template_fields[] = {
    "resourceLimits",  "resourceRequests", "env",       "entrypoint", "volumes",   "platform",
    "credentialProxy", "secureAccess",     "lifecycle", "persistent", "secretEnv", "onExpiry",
};

/* One of image, templateId and snapshotId; a pool by its extension needs none. */
static int check_source(struct cli *cli, const char *path, const struct json *v,
                        struct osb_create *create, const char **ret_template)
{
    const struct json *image = json_get(v, STR("image"));
    const struct json *uri =
        image && image->type == JSON_OBJECT ? json_get(image, STR("uri")) : image;
    const char *pool = has(json_get(v, STR("extensions")), "poolRef") ? "" : NULL;
    int sources = has(v, "image") + has(v, "templateId") + has(v, "snapshotId");

    if (sources > 1 || (sources == 0 && !pool))
        return cli_error(cli, "File",
                         "Request file '%s' must set one of 'image', 'templateId' or 'snapshotId'.",
                         path);
    if (has(v, "image"))
        create->image = text_member(cli, path, uri, "image");
    if (has(v, "templateId"))
        *ret_template = text_member(cli, path, json_get(v, STR("templateId")), "templateId");
    if (has(v, "snapshotId"))
        create->snapshot_id = text_member(cli, path, json_get(v, STR("snapshotId")), "snapshotId");
    return create->image || *ret_template || create->snapshot_id || sources == 0 ? 0 : EXIT_FAILED;
}

/* null is no end; without the member, what the settings say. */
static int check_timeout(struct cli *cli, const char *path, const struct json *v,
                         struct osb_create *create, const char *template)
{
    const struct json *timeout = json_get(v, STR("timeout"));

    if (!timeout) {
        int r = cli_default_timeout(cli, &create->timeout_s);

        if (r)
            return r;
    } else if (timeout->type == JSON_NULL) {
        create->timeout_s = -1;
    } else if (json_to_i64(timeout, &create->timeout_s) < 0 || create->timeout_s <= 0) {
        return cli_error(cli, "File",
                         "Request file field 'timeout' in '%s' must be a number of seconds, or "
                         "null for none.",
                         path);
    }
    if (template && create->timeout_s <= 0)
        return cli_error(cli, "Usage",
                         create->timeout_s ? "A sandbox of a template must expire: set 'timeout'."
                                           : "'timeout' is required with 'templateId'.");
    return 0;
}

static int check_file(struct cli *cli, const char *path, const struct json *v, const char *template)
{
    const struct json *proxy = json_get(v, STR("credentialProxy"));
    bool on = false;

    for (size_t i = 0; template && i < ARRAY_LEN(template_fields); i++) {
        const struct json *field = json_get(v, str_of(template_fields[i]));
        bool given;

        if (has(v, template_fields[i]) && (json_to_bool(field, &given) < 0 || given))
            return cli_error(cli, "File",
                             "A template decides '%s': '%s' cannot have it beside 'templateId'.",
                             template_fields[i], path);
    }
    (void)json_to_bool(
        proxy && proxy->type == JSON_OBJECT ? json_get(proxy, STR("enabled")) : proxy, &on);
    if (on && !has(v, "networkPolicy"))
        return cli_error(cli, "File",
                         "Request file field 'credentialProxy' in '%s' requires 'networkPolicy': "
                         "what it injects goes through the egress policy.",
                         path);
    return 0;
}

/* A member in the form that servers take: a name of an image, and a bare switch, become objects. */
static void write_field(struct json_writer *w, const struct json *member)
{
    bool on = false;

    if (member->type == JSON_NULL || str_eq(member->key, STR("timeout")))
        return;
    json_write_key(w, member->key);
    if (str_eq(member->key, STR("image")) && member->type == JSON_STRING) {
        json_write_object(w);
        json_member_string(w, STR("uri"), member->string);
        json_write_object_end(w);
    } else if (str_eq(member->key, STR("credentialProxy")) && json_to_bool(member, &on) == 0) {
        json_write_object(w);
        json_write_key(w, STR("enabled"));
        json_write_bool(w, on);
        json_write_object_end(w);
    } else {
        json_write_value(w, member);
    }
}

static void write_timeout(struct json_writer *w, int64_t timeout_s)
{
    if (timeout_s >= 0)
        json_member_i64(w, STR("timeout"), timeout_s ? timeout_s : TIMEOUT_S);
}

/* What the library sends when the caller says nothing about it. */
static void write_usual(struct json_writer *w, const struct json *v)
{
    static const char *const idle[] = {"tail", "-f", "/dev/null", NULL};

    if (!has(v, "resourceLimits")) {
        json_write_key(w, STR("resourceLimits"));
        json_write_raw(w, STR("{\"cpu\":\"1\",\"memory\":\"2Gi\"}"));
    }
    if (!has(v, "entrypoint"))
        write_texts(w, "entrypoint", idle);
}

static int fill_from_file(struct cli *cli, struct osb_create *create, const char **ret_template)
{
    static const char *const others[] = {
        "image",
        "image-auth-username",
        "image-auth-password",
        "template",
        "snapshot-id",
        "timeout",
        "env",
        "metadata",
        "extension",
        "resource",
        "entrypoint",
        "network-policy-file",
        "credential-proxy",
        "volumes-file",
        "pool",
        "secret",
        "volume",
        "persistent",
        "pull",
        "secure-access",
    };
    const char *path = cli_text(cli, "file");
    AUTO_BUF(text, REQUEST_BYTES_MAX);
    struct json_writer w;
    const struct json *v;
    int r = refuse_with(cli, "--file", others, ARRAY_LEN(others));

    if (r)
        return r;
    v = read_request(cli, path, request_fields, ARRAY_LEN(request_fields));
    if (!v)
        return EXIT_FAILED;
    r = check_source(cli, path, v, create, ret_template);
    if (r == 0)
        r = check_timeout(cli, path, v, create, *ret_template);
    if (r == 0)
        r = check_file(cli, path, v, *ret_template);
    if (r)
        return r;
    buf_keep_secret(&text);
    json_write_begin(&w, &text);
    json_write_object(&w);
    json_each(member, v) write_field(&w, member);
    write_timeout(&w, create->timeout_s);
    if (!*ret_template)
        write_usual(&w, v);
    create->request = request_end(cli, &w, &text);
    return create->request ? 0 : EXIT_FAILED;
}

/* --- sandbox create --template --- */

static int fill_from_template(struct cli *cli, struct osb_create *create, const char *template)
{
    static const char *const fixed[] = {
        "image",
        "image-auth-username",
        "image-auth-password",
        "env",
        "resource",
        "entrypoint",
        "volumes-file",
        "credential-proxy",
        "pool",
        "secret",
        "volume",
        "persistent",
        "pull",
        "secure-access",
        "snapshot-id",
    };
    const char *policy = cli_text(cli, "network-policy-file");
    const struct json *rules = policy ? cli_read_json(cli, policy) : NULL;
    AUTO_BUF(text, REQUEST_BYTES_MAX);
    struct json_writer w;
    int r = refuse_with(cli, "--template", fixed, ARRAY_LEN(fixed));

    if (r == 0 && cli_text(cli, "timeout"))
        create->timeout_s = cli_number(cli, "timeout", 0);
    else if (r == 0)
        r = cli_default_timeout(cli, &create->timeout_s);
    if (r == 0 && create->timeout_s <= 0)
        r = cli_error(cli, "Usage", "A sandbox of a template must expire: --timeout 30m.");
    if (r || (policy && !rules))
        return r ? r : EXIT_FAILED;
    json_write_begin(&w, &text);
    json_write_object(&w);
    json_member_string(&w, STR("templateId"), str_of(template));
    write_timeout(&w, create->timeout_s);
    write_map(cli, &w, "metadata", "metadata");
    write_map(cli, &w, "extension", "extensions");
    if (rules) {
        json_write_key(&w, STR("networkPolicy"));
        json_write_value(&w, rules);
    }
    create->request = request_end(cli, &w, &text);
    return create->request ? 0 : EXIT_FAILED;
}

int cli_fill_request(struct cli *cli, struct osb_create *create, const char **ret_template)
{
    create->no_wait = cli_flag(cli, "skip-health-check");
    create->ready_timeout_ms = (uint32_t)(cli_number(cli, "ready-timeout", 0) * 1000);
    if (cli_text(cli, "file"))
        return fill_from_file(cli, create, ret_template);
    *ret_template = cli_text(cli, "template");
    return fill_from_template(cli, create, *ret_template);
}

/* --- template --- */

static int fill_template(struct cli *cli, struct json_writer *w)
{
    const char *image = cli_text(cli, "image"), *publish = cli_text(cli, "publish");
    const char *probe = cli_text(cli, "readiness-probe"), *format = cli_text(cli, "format");
    int64_t warmup_s = cli_number(cli, "warmup-seconds", -1);

    if (!image || !publish)
        return cli_error(cli, "Usage", "Missing required options: %s (or pass --file).",
                         image     ? "--publish"
                         : publish ? "--image"
                                   : "--image, --publish");
    json_member_string(w, STR("image"), str_of(image));
    json_member_string(w, STR("publish"), str_of(publish));
    write_map(cli, w, "resource", "resourceLimits");
    write_texts(w, "entrypoint", cli_texts(cli, "entrypoint", NULL));
    write_map(cli, w, "env", "env");
    write_map(cli, w, "metadata", "metadata");
    if (format)
        json_member_string(w, STR("format"), str_of(format));
    if (!probe && warmup_s < 0)
        return 0;
    json_write_key(w, STR("readiness"));
    json_write_object(w);
    if (probe)
        json_member_string(w, STR("probe"), str_of(probe));
    if (warmup_s >= 0)
        json_member_i64(w, STR("warmupSeconds"), warmup_s);
    json_write_object_end(w);
    return 0;
}

static int fill_template_from_file(struct cli *cli, struct json_writer *w)
{
    static const char *const others[] = {
        "image",    "publish", "resource",        "entrypoint",     "env",
        "metadata", "format",  "readiness-probe", "warmup-seconds",
    };
    static const char *const known[] = {
        "image", "publish",  "resourceLimits", "entrypoint",
        "env",   "metadata", "format",         "readiness",
    };
    const char *path = cli_text(cli, "file");
    const struct json *v;
    int r = refuse_with(cli, "--file", others, ARRAY_LEN(others));

    if (r)
        return r;
    v = read_request(cli, path, known, ARRAY_LEN(known));
    if (!v || !text_member(cli, path, json_get(v, STR("image")), "image") ||
        !text_member(cli, path, json_get(v, STR("publish")), "publish"))
        return EXIT_FAILED;
    json_each(member, v)
    {
        if (member->type == JSON_NULL)
            continue;
        json_write_key(w, member->key);
        json_write_value(w, member);
    }
    return 0;
}

/* Sends it; NULL after it said what went wrong. */
static const struct json *ask(struct cli *cli, const char *method, const char *path,
                              const char *body)
{
    struct osb_answer *answer = NULL;
    const struct json *v;
    int r = cli_request(cli,
                        &(struct osb_request){OSB_REQUEST, .method = method, .path = path,
                                              .body = body, .body_bytes = body ? strlen(body) : 0},
                        &answer);

    if (r)
        return NULL;
    v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
    osb_answer_free(answer);
    if (!v)
        cli_error(cli, "Server", "The answer of the server is not JSON.");
    return v;
}

static const char *text_of(struct cli *cli, const struct json *v, const char *key)
{
    struct str text;

    return json_to_str(json_get(v, str_of(key)), &text) == 0 ? arena_strdup(&cli->arena, text)
                                                             : NULL;
}

int template_create(struct cli *cli)
{
    AUTO_BUF(text, REQUEST_BYTES_MAX);
    struct json_writer w;
    const struct json *v;
    const char *request;
    struct doc doc;
    int r;

    json_write_begin(&w, &text);
    json_write_object(&w);
    r = cli_text(cli, "file") ? fill_template_from_file(cli, &w) : fill_template(cli, &w);
    if (r)
        return r;
    request = request_end(cli, &w, &text);
    v = request ? ask(cli, "POST", "/templates", request) : NULL;
    if (!v)
        return EXIT_FAILED;
    doc_begin(&doc);
    doc_text(&doc, "template_id", text_of(cli, v, "templateId"));
    doc_text(&doc, "image", text_of(cli, v, "image"));
    doc_text(&doc, "status", text_of(cli, json_get(v, STR("status")), "phase"));
    if (cli_text(cli, "file"))
        doc_text(&doc, "request_file", cli_text(cli, "file"));
    return cli_panel(cli, "Template Created", &doc);
}

/* With the phase in place of the status, for tables. */
static void write_flat(struct cli *cli, struct doc *doc, const struct json *v, bool all)
{
    static const char *const texts[] = {"templateId", "image",     "format",
                                        "publish",    "createdAt", "updatedAt"};
    static const char *const names[] = {"template_id", "image",      "format",
                                        "publish",     "created_at", "updated_at"};
    static const char *const rest[] = {"resourceLimits", "entrypoint", "env", "metadata",
                                       "readiness"};
    static const char *const rest_names[] = {"resource_limits", "entrypoint", "env", "metadata",
                                             "readiness"};
    const struct json *status = json_get(v, STR("status"));

    json_write_object(&doc->w);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        doc_text(doc, names[i], text_of(cli, v, texts[i]));
    doc_text(doc, "status", text_of(cli, status, "phase"));
    if (all && has(status, "message"))
        doc_text(doc, "status_message", text_of(cli, status, "message"));
    for (size_t i = 0; all && i < ARRAY_LEN(rest); i++)
        if (has(v, rest[i])) {
            json_write_key(&doc->w, str_of(rest_names[i]));
            json_write_value(&doc->w, json_get(v, str_of(rest[i])));
        }
    json_write_object_end(&doc->w);
}

int template_get(struct cli *cli)
{
    AUTO_BUF(path, LIST_PATH_BYTES_MAX);
    const struct json *v;
    struct doc doc;

    if (buf_add(&path, STR("/templates/")) < 0 ||
        url_encode(str_of(cli_argument(cli, 0)), URL_SET_SEGMENT, &path) < 0)
        return cli_error(cli, "Usage", "An argument is too long.");
    v = ask(cli, "GET", path.p, NULL);
    if (!v)
        return EXIT_FAILED;
    buf_init(&doc.text, DOC_BYTES_MAX);
    json_write_begin(&doc.w, &doc.text);
    if (cli->format == FORMAT_TABLE)
        write_flat(cli, &doc, v, true);
    else
        shape_write(&doc.w, v, SHAPE_TEMPLATE);
    return cli_object(cli, "Template Info", &doc);
}

/* "/templates?page=1", with labels as one value: a=1&b=2. */
static int list_path(struct cli *cli, struct buf *path)
{
    AUTO_BUF(labels, LIST_PATH_BYTES_MAX);
    int64_t page = cli_number(cli, "page", 0), size = cli_number(cli, "page-size", 0);
    size_t n = 0;
    const struct osb_pair *pairs = cli_pairs(cli, "metadata", &n);
    int r = buf_add(path, STR("/templates"));

    for (size_t i = 0; i < n; i++) {
        r |= buf_add(&labels, i ? STR("&") : STR(""));
        r |= url_encode(str_of(pairs[i].name), URL_SET_QUERY_VALUE, &labels);
        r |= buf_add_char(&labels, '=');
        r |= url_encode(str_of(pairs[i].value), URL_SET_QUERY_VALUE, &labels);
    }
    if (n) {
        r |= buf_add(path, STR("?metadata="));
        r |= url_encode(buf_str(&labels), URL_SET_QUERY_VALUE, path);
    }
    if (page)
        r |= buf_addf(path, "%cpage=%lld", n ? '&' : '?', (long long)page);
    if (size)
        r |= buf_addf(path, "%cpageSize=%lld", n || page ? '&' : '?', (long long)size);
    return r < 0 ? cli_error(cli, "Usage", "The labels are too long.") : 0;
}

int template_list(struct cli *cli)
{
    static const char columns[] = "template_id status image format created_at updated_at";
    AUTO_BUF(path, LIST_PATH_BYTES_MAX);
    const struct json *v, *items;
    struct doc doc;
    int r = list_path(cli, &path);

    if (r)
        return r;
    v = ask(cli, "GET", path.p, NULL);
    if (!v)
        return EXIT_FAILED;
    items = json_get(v, STR("items"));
    if (cli->format == FORMAT_TABLE) {
        if (json_count(items) == 0)
            return cli_info(cli, "No templates found.");
        doc_begin_array(&doc);
        json_each(item, items) write_flat(cli, &doc, item, false);
        return cli_rows(cli, "Templates", columns, &doc);
    }
    doc_begin(&doc);
    json_write_key(&doc.w, STR("items"));
    json_write_array(&doc.w);
    json_each(item, items) shape_write(&doc.w, item, SHAPE_TEMPLATE);
    json_write_array_end(&doc.w);
    json_write_key(&doc.w, STR("pagination"));
    shape_write(&doc.w, json_get(v, STR("pagination")), SHAPE_PAGE);
    return cli_object(cli, "Templates", &doc);
}
