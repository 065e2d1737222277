/* cmd_more.c - osb egress, diagnostics, devops and snapshot. */
#include "osb/commands.h"

#include "base/url.h"

/* --- egress --- */

int egress_get(struct cli *cli)
{
    struct osb_answer *answer = NULL;
    const struct json *v, *policy;
    struct doc doc;
    int r = cli_connect(cli);

    if (r)
        return r;
    r = cli_request(cli,
                    &(struct osb_request){OSB_REQUEST, .method = "GET", .path = "/policy",
                                          .sandbox = cli->sandbox, .port = OSB_PORT_EGRESS},
                    &answer);
    if (r)
        return r;
    v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
    osb_answer_free(answer);
    policy = json_get(v, STR("policy"));
    buf_init(&doc.text, DOC_BYTES_MAX);
    json_write_begin(&doc.w, &doc.text);
    shape_write(&doc.w, policy ? policy : v, "default_action egress");
    return cli_object(cli, "Egress Policy", &doc);
}

static int write_rules(struct cli *cli, struct json_writer *w)
{
    size_t n = 0;
    const char *const *rules = cli_texts(cli, "rule", &n);

    json_write_array(w);
    for (size_t i = 0; i < n; i++) {
        struct str target = str_of(rules[i]), action;

        str_cut(&target, '=', &action);
        action = str_trim(action);
        target = target.p ? str_trim(target) : target;
        if (!target.p || target.n == 0 ||
            !(str_eq_nocase(action, STR("allow")) || str_eq_nocase(action, STR("deny")))) {
            cli_error(cli, "Usage",
                      "Invalid rule '%s'. Use ACTION=TARGET, for example allow=pypi.org.",
                      rules[i]);
            return EXIT_USAGE;
        }
        json_write_object(w);
        json_member_string(w, STR("action"),
                           str_eq_nocase(action, STR("allow")) ? STR("allow") : STR("deny"));
        json_member_string(w, STR("target"), target);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    return 0;
}

int egress_patch(struct cli *cli)
{
    AUTO_BUF(body, DOC_BYTES_MAX);
    struct json_writer w;
    struct doc doc;
    int r;

    json_write_begin(&w, &body);
    r = write_rules(cli, &w);
    if (r)
        return r;
    if (json_write_end(&w) < 0)
        return cli_error(cli, "Memory", "too many rules");
    r = cli_connect(cli);
    if (r == 0)
        r = cli_request(cli,
                        &(struct osb_request){OSB_REQUEST, .method = "PATCH", .path = "/policy",
                                              .sandbox = cli->sandbox, .port = OSB_PORT_EGRESS,
                                              .body = body.p, .body_bytes = body.n},
                        NULL);
    if (r)
        return r;
    doc_begin(&doc);
    doc_text(&doc, "sandbox_id", cli_argument(cli, 0));
    json_write_key(&doc.w, STR("patched_rules"));
    json_write_raw(&doc.w, buf_str(&body));
    return cli_panel(cli, "Egress Policy Patched", &doc);
}

/* --- diagnostics --- */

static int print_line(const char *text)
{
    size_t n = strlen(text);
    int r = cli_write(text, n);

    if (r == 0 && (n == 0 || text[n - 1] != '\n'))
        r = cli_write("\n", 1);
    return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static int diagnostics(struct cli *cli, const char *kind, const char *title)
{
    struct osb_answer *answer = NULL;
    const struct json *v;
    struct doc doc;
    int r;

    if (osb_diagnostics_get(cli->client, cli_argument(cli, 0), kind, cli_text(cli, "scope"),
                            &answer) < 0)
        return cli_failed(cli);
    if (cli->format != FORMAT_RAW) {
        v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
        osb_answer_free(answer);
        buf_init(&doc.text, DOC_BYTES_MAX);
        json_write_begin(&doc.w, &doc.text);
        shape_write(&doc.w, v, SHAPE_DIAGNOSTIC);
        return cli_object(cli, title, &doc);
    }
    if (osb_answer_bool(answer, "truncated", false))
        fputs("Warning: diagnostic content was truncated.\n", stderr);
    if (osb_answer_has(answer, "content"))
        r = print_line(osb_answer_text(answer, "content"));
    else if (osb_answer_has(answer, "contentUrl"))
        r = print_line(osb_answer_text(answer, "contentUrl"));
    else
        r = cli_error(cli, "Sandbox Error",
                      "Diagnostic response did not include inline content or a content URL.");
    osb_answer_free(answer);
    return r;
}

int diagnostics_logs(struct cli *cli)
{
    return diagnostics(cli, "logs", "Diagnostic Logs");
}

int diagnostics_events(struct cli *cli)
{
    return diagnostics(cli, "events", "Diagnostic Events");
}

/* The last word of the command is the last of the path. */
int devops_text(struct cli *cli)
{
    const char *kind = strchr(cli->line.command->path, ' ') + 1, *id = cli_argument(cli, 0);
    static const char *const options[] = {"tail", "since", "limit", "event-limit"};
    static const char *const names[] = {"tail", "since", "limit", "event_limit"};
    struct osb_pair query[ARRAY_LEN(options)], accept = {"Accept", "text/plain"};
    struct osb_answer *answer = NULL;
    AUTO_BUF(path, 4096);
    int r;

    if (strcmp(kind, "logs") == 0 || strcmp(kind, "events") == 0)
        fprintf(stderr, "Warning: `osb devops %s` is deprecated. Use `osb diagnostics %s`.\n", kind,
                kind);
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        query[i] = (struct osb_pair){names[i], cli_text(cli, options[i])};
    buf_add(&path, STR("/sandboxes/"));
    if (url_encode(str_of(id), URL_SET_SEGMENT, &path) < 0)
        return cli_error(cli, "Usage", "The id is too long.");
    buf_addf(&path, "/diagnostics/%s", kind);
    if (osb_request(cli->client,
                    &(struct osb_request){OSB_REQUEST, .method = "GET", .path = path.p,
                                          .query = query, .query_count = ARRAY_LEN(query),
                                          .headers = &accept, .header_count = 1},
                    &answer) < 0) {
        if (osb_error_status(osb_client_error(cli->client)) == 404)
            return cli_error(cli, "Sandbox Error", "Sandbox '%s' not found.", id);
        return cli_failed(cli);
    }
    r = print_line(osb_answer_body(answer, NULL));
    osb_answer_free(answer);
    return r;
}

/* --- snapshots --- */

static int print_snapshot(struct cli *cli, struct osb_answer *answer, const char *title, bool panel)
{
    const struct json *v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
    struct doc doc;

    if (!panel) {
        buf_init(&doc.text, DOC_BYTES_MAX);
        json_write_begin(&doc.w, &doc.text);
        shape_write(&doc.w, v, SHAPE_SNAPSHOT);
        osb_answer_free(answer);
        return cli_object(cli, title, &doc);
    }
    doc_begin(&doc);
    doc_text(&doc, "id", osb_answer_text(answer, "id"));
    doc_text(&doc, "sandbox_id", osb_answer_text(answer, "sandboxId"));
    doc_text(&doc, "name", osb_answer_text(answer, "name"));
    doc_text(&doc, "status", osb_answer_text(answer, "status.state"));
    osb_answer_free(answer);
    return cli_panel(cli, title, &doc);
}

int snapshot_create(struct cli *cli)
{
    struct osb_snapshot snapshot = {OSB_SNAPSHOT, .name = cli_text(cli, "name"),
                                    .memory = cli_flag(cli, "memory")};
    struct osb_answer *answer = NULL;

    if (osb_snapshot_create_with(cli->client, cli_argument(cli, 0), &snapshot, &answer) < 0)
        return cli_failed(cli);
    return print_snapshot(cli, answer, "Snapshot Created", true);
}

int snapshot_get(struct cli *cli)
{
    struct osb_answer *answer = NULL;

    if (osb_snapshot_get(cli->client, cli_argument(cli, 0), &answer) < 0)
        return cli_failed(cli);
    return print_snapshot(cli, answer, "Snapshot Info", false);
}

int snapshot_list(struct cli *cli)
{
    struct osb_filter filter = {OSB_FILTER};
    struct osb_answer *answer = NULL;
    const struct json *v, *items;
    struct doc doc;

    filter.sandbox_id = cli_text(cli, "sandbox-id");
    filter.states = cli_texts(cli, "state", NULL);
    filter.page = (uint32_t)cli_number(cli, "page", 0);
    filter.page_size = (uint32_t)cli_number(cli, "page-size", 0);
    if (osb_snapshot_list(cli->client, &filter, &answer) < 0)
        return cli_failed(cli);
    v = cli_parse(cli, str_of(osb_answer_body(answer, NULL)));
    osb_answer_free(answer);
    items = json_get(v, STR("items"));
    if (cli->format == FORMAT_TABLE) {
        if (json_count(items) == 0)
            return cli_info(cli, "No snapshots found.");
        doc_begin_array(&doc);
        json_each(item, items) shape_write(&doc.w, item, "id name sandbox_id status created_at");
        return cli_rows(cli, "Snapshots", "id name sandbox_id status created_at", &doc);
    }
    doc_begin(&doc);
    json_write_key(&doc.w, STR("items"));
    json_write_array(&doc.w);
    json_each(item, items) shape_write(&doc.w, item, SHAPE_SNAPSHOT);
    json_write_array_end(&doc.w);
    json_write_key(&doc.w, STR("pagination"));
    shape_write(&doc.w, json_get(v, STR("pagination")), SHAPE_PAGE);
    return cli_object(cli, NULL, &doc);
}

int snapshot_delete(struct cli *cli)
{
    if (osb_snapshot_delete(cli->client, cli_argument(cli, 0)) < 0)
        return cli_failed(cli);
    return cli_message(cli, "Snapshot deleted: %s", cli_argument(cli, 0));
}
