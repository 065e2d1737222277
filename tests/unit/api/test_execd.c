#include "api/execd.h"

#include "test.h"

static const struct json *parsed(struct arena *a, const char *text)
{
    struct json *v;

    CHECK_EQ(json_parse(a, str_of(text), NULL, &v, NULL), 0);
    return v;
}

TEST(execd, writes_a_command)
{
    struct json_pair env = {STR("A"), STR("b")};
    struct str argv[] = {STR("ls"), STR("-l")};
    struct api_run run = {.command = STR("echo"), .timeout_ms = 5};
    AUTO_BUF(out, 4096);

    CHECK_EQ(api_run_write(&out, &run), 0);
    CHECK_STR(out.p, "{\"command\":\"echo\",\"timeout\":5}");
    buf_clear(&out);
    run = (struct api_run){.cwd = STR("/t"),
                           .envs = &env,
                           .envs_count = 1,
                           .argv = argv,
                           .argv_count = 2,
                           .background = true,
                           .has_uid = true,
                           .has_input = true,
                           .stdin_open = true};
    CHECK_EQ(api_run_write(&out, &run), 0);
    CHECK_STR(out.p, "{\"cwd\":\"/t\",\"envs\":{\"A\":\"b\"},\"argv\":[\"ls\",\"-l\"],"
                     "\"background\":true,\"uid\":0,\"stdin\":\"\",\"stdin_open\":true}");
    buf_clear(&out);
    CHECK_EQ(api_session_run_write(&out, &run), 0);
    CHECK_STR(out.p, "{\"cwd\":\"/t\",\"envs\":{\"A\":\"b\"}}");
}

TEST(execd, writes_code_and_files)
{
    struct api_code code = {.code = STR("1"), .context = {.language = STR("python")}};
    struct api_permission p = {STR("/a"), STR("root"), STR(""), 0644};
    struct api_move move = {STR("/a"), STR("/b")};
    struct api_replace replace = {STR("/a"), STR("x"), STR("")};
    AUTO_BUF(out, 4096);

    CHECK_EQ(api_code_write(&out, &code), 0);
    CHECK_EQ(api_upload_meta_write(&out, &p), 0);
    CHECK_EQ(api_permissions_write(&out, &p, 1), 0);
    CHECK_EQ(api_moves_write(&out, &move, 1), 0);
    CHECK_EQ(api_replaces_write(&out, &replace, 1), 0);
    CHECK_STR(out.p, "{\"code\":\"1\",\"context\":{\"language\":\"python\"}}"
                     "{\"path\":\"/a\",\"owner\":\"root\",\"mode\":644}"
                     "{\"/a\":{\"owner\":\"root\",\"mode\":644}}"
                     "[{\"src\":\"/a\",\"dest\":\"/b\"}]"
                     "{\"/a\":{\"old\":\"x\",\"new\":\"\"}}");
}

TEST(execd, reads_files_and_figures)
{
    AUTO_ARENA(a, 1 << 20);
    struct api_metrics m;
    struct api_file f;
    struct err e = {0};

    CHECK_EQ(api_file_read(&a,
                           parsed(&a, "{\"path\":\"/a\",\"type\":\"file\",\"size\":6,\"mode\":4755,"
                                      "\"modified_at\":\"2026-07-01T09:30:00Z\"}"),
                           &f, NULL),
             0);
    CHECK_EQ(f.mode, 04755);
    CHECK(f.size == 6 && f.modified_us > 0);
    CHECK_EQ(api_file_read(&a, parsed(&a, "{\"path\":\"/a\",\"mode\":689}"), &f, &e), -EBADMSG);
    CHECK_STR(e.msg, "mode: expected octal digits");
    CHECK_EQ(api_metrics_read(&a,
                              parsed(&a, "{\"cpu_count\":2,\"cpu_used_pct\":0.5,\"mem_total_mib\":"
                                         "512,\"mem_used_mib\":3.5,\"timestamp\":9}"),
                              &m, NULL),
             0);
    CHECK(m.cpu_count == 2 && m.mem_used_mib == 3.5 && m.timestamp_ms == 9);
}

TEST(execd, reads_events)
{
    AUTO_ARENA(a, 1 << 20);
    struct api_event v;

    CHECK_EQ(api_event_read(&a,
                            parsed(&a, "{\"type\":\"error\",\"timestamp\":1,\"error\":{\"ename\":"
                                       "\"E\",\"evalue\":\"2\",\"traceback\":[\"x\",\"y\"]}}"),
                            &v, NULL),
             0);
    CHECK(v.type == API_EVENT_ERROR && v.traceback_count == 2);
    CHECK_SPAN(v.error_value, "2");
    CHECK_EQ(api_event_read(&a, parsed(&a, "{\"type\":\"of tomorrow\",\"text\":null}"), &v, NULL),
             0);
    CHECK_EQ(v.type, API_EVENT_OTHER);
    CHECK_EQ(api_event_read(&a, parsed(&a, "{\"text\":\"x\"}"), &v, NULL), -EBADMSG);
}
