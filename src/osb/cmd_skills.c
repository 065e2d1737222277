/* cmd_skills.c - osb skills: instructions for coding assistants, in the files that they read. */
#include "osb/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "osb/skills.h"

enum { SKILL_FILE_BYTES_MAX = 4 * 1024 * 1024 };

/* --- places --- */

/* Below the working directory, or below the home directory. */
static const char *place(struct cli *cli, const char *format, const char *slug, bool global)
{
    const char *home = getenv("HOME");
    struct str before = str_of(format), after;
    const char *path;
    size_t at = str_find_str(before, STR("%s"));

    after = at < before.n ? str_skip(before, at + 2) : STR("");
    before.n = at;
    path = arena_printf(&cli->arena, "%.*s%s%.*s", STR_ARG(before), after.n ? slug : "",
                        STR_ARG(after));
    if (global && path)
        path = arena_printf(&cli->arena, "%s/%s", home && home[0] ? home : "", path);
    return path ? path : "";
}

static const char *parent_of(struct cli *cli, const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? arena_strdup(&cli->arena, str_make(path, (size_t)(slash - path))) : ".";
}

static int make_parents(struct cli *cli, const char *path)
{
    char *copy = arena_strdup(&cli->arena, str_of(path));

    for (char *c = copy ? copy + 1 : NULL; c && *c; c++)
        if (*c == '/') {
            *c = '\0';
            if (mkdir(copy, 0777) < 0 && errno != EEXIST)
                return cli_error(cli, "File", "Cannot make '%s': %s", copy, strerror(errno));
            *c = '/';
        }
    return 0;
}

/* The file's text; empty when there is none. 0 or an exit status. */
static int read_text(struct cli *cli, const char *path, struct buf *out, bool *ret_exists)
{
    struct err e = {0};
    int r = io_read_regular(AT_FDCWD, path, SKILL_FILE_BYTES_MAX, out, &e);

    *ret_exists = r == 0;
    if (r == 0 || r == -ENOENT)
        return 0;
    return cli_error(cli, "File", "Cannot read '%s': %s", path, e.msg[0] ? e.msg : strerror(-r));
}

/* Replaces the file, or what it links to, at once; its mode stays. */
static int write_text(struct cli *cli, const char *path, struct str text)
{
    char real[PATH_MAX];
    struct stat st = {.st_mode = 0644};
    struct err e = {0};
    auto_fd dir = -EBADF;
    int r = make_parents(cli, path);

    if (r)
        return r;
    if (realpath(path, real) && stat(real, &st) == 0)
        path = real;
    dir = open(parent_of(cli, path), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return cli_error(cli, "File", "Cannot open the directory of '%s': %s", path,
                         strerror(errno));
    r = io_write_file_atomic(dir, strrchr(path, '/') ? strrchr(path, '/') + 1 : path, text,
                             st.st_mode & 07777, &e);
    return r < 0 ? cli_error(cli, "File", "Cannot write '%s': %s", path, e.msg) : 0;
}

/* Removes the file, and its directory when nothing else is in it. */
static int remove_file(struct cli *cli, const char *path)
{
    if (unlink(path) < 0 && errno != ENOENT)
        return cli_error(cli, "File", "Cannot remove '%s': %s", path, strerror(errno));
    if (strchr(path, '/'))
        (void)rmdir(parent_of(cli, path));
    return 0;
}

/* --- one skill at one place --- */

struct job {
    struct skill skill;
    const struct skill_target *target;
    bool global;
    const char *path;
    const char *status;
};

/* The second name of a file of its own: a link, so that both say the same. */
static const char *link_of(struct cli *cli, const struct job *job)
{
    const char *folder = parent_of(cli, job->target->path);

    return place(cli, arena_printf(&cli->arena, "%s/%s", folder, job->target->link),
                 job->skill.slug, job->global);
}

static int put_link(struct cli *cli, const struct job *job)
{
    const char *path = link_of(cli, job);
    const char *to = arena_printf(&cli->arena, "../%s.md", job->skill.slug);
    char now[PATH_MAX];
    ssize_t n = readlink(path, now, sizeof(now));
    int r;

    if (n > 0 && str_eq(str_make(now, (size_t)n), str_of(to)))
        return 0;
    r = make_parents(cli, path);
    if (r)
        return r;
    if (n > 0)
        (void)unlink(path);
    if (symlink(to, path) == 0 || errno == EEXIST) /* a file that is not ours stays */
        return 0;
    return cli_error(cli, "File", "Cannot make '%s': %s", path, strerror(errno));
}

static int remove_link(struct cli *cli, const struct job *job)
{
    const char *path = link_of(cli, job);
    char now[8];

    return readlink(path, now, sizeof(now)) < 0 ? 0 : remove_file(cli, path);
}

static int say_broken(struct cli *cli, const struct job *job)
{
    return cli_error(cli, "File",
                     "'%s' has only one of the markers of opensandbox-%s. Remove it by hand, then "
                     "run this again.",
                     job->path, job->skill.slug);
}

static int install(struct cli *cli, struct job *job)
{
    AUTO_BUF(old, SKILL_FILE_BYTES_MAX);
    AUTO_BUF(text, SKILL_FILE_BYTES_MAX);
    AUTO_BUF(file, 2 * SKILL_FILE_BYTES_MAX);
    bool exists, is_block = job->target->form == SKILL_BLOCK;
    struct str block;
    int r = read_text(cli, job->path, &old, &exists);

    if (r)
        return r;
    r = skill_write(&job->skill, job->target->form, &text);
    if (is_block)
        exists = skill_block_find(buf_str(&old), job->skill.slug, &block) == 0;
    if (r == 0 && is_block)
        r = skill_block_put(buf_str(&old), job->skill.slug, buf_str(&text), &file);
    if (r == -EBADMSG)
        return say_broken(cli, job);
    if (r < 0)
        return cli_error(cli, "File", "'%s' would become too long.", job->path);
    job->status = !exists ? "installed"
                  : str_eq(buf_str(&old), is_block ? buf_str(&file) : buf_str(&text))
                      ? "already_present"
                      : "updated";
    if (strcmp(job->status, "already_present") != 0)
        r = write_text(cli, job->path, is_block ? buf_str(&file) : buf_str(&text));
    if (r == 0 && job->target->link)
        r = put_link(cli, job);
    return r;
}

static bool is_blank(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!strchr(" \t\r\n", s.p[i]))
            return false;
    return true;
}

static int uninstall(struct cli *cli, struct job *job)
{
    AUTO_BUF(old, SKILL_FILE_BYTES_MAX);
    AUTO_BUF(file, SKILL_FILE_BYTES_MAX);
    bool exists;
    int r = read_text(cli, job->path, &old, &exists);

    if (r)
        return r;
    if (exists && job->target->form == SKILL_BLOCK) {
        r = skill_block_cut(buf_str(&old), job->skill.slug, &file);
        exists = r == 0;
        if (r == -EBADMSG)
            return say_broken(cli, job);
    }
    job->status = exists ? "removed" : "not_installed";
    r = 0;
    if (exists && job->target->form == SKILL_BLOCK && !is_blank(buf_str(&file)))
        r = write_text(cli, job->path, buf_str(&file));
    else if (exists)
        r = remove_file(cli, job->path);
    if (r == 0 && job->target->link)
        r = remove_link(cli, job);
    return r;
}

static bool is_installed(struct cli *cli, const struct job *job)
{
    AUTO_BUF(old, SKILL_FILE_BYTES_MAX);
    struct str block;

    if (io_read_regular(AT_FDCWD, job->path, SKILL_FILE_BYTES_MAX, &old, NULL) < 0)
        return false;
    return job->target->form != SKILL_BLOCK ||
           skill_block_find(buf_str(&old), job->skill.slug, &block) == 0;
}

static struct job job_of(struct cli *cli, const struct skill_target *target, struct skill skill,
                         bool global)
{
    return (struct job){skill, target, global, place(cli, target->path, skill.slug, global), NULL};
}

/* --- install and uninstall --- */

static void add_names(struct buf *out)
{
    for (size_t i = 0; i < skill_count(); i++)
        buf_addf(out, "%s%s", i ? ", " : "", skill_at(i).slug);
}

/* A wrong command line, and what a right one is. */
static int guide(struct cli *cli, const char *why)
{
    AUTO_BUF(text, DOC_BYTES_MAX);

    if (cli->format != FORMAT_TABLE) {
        cli_error(cli, "Usage", "%s", why);
        return EXIT_USAGE;
    }
    help_usage(&text, &cli->line);
    buf_addf(&text,
             "\nError: %s\n\n"
             "What there is, and what one of them says:\n"
             "  osb skills list\n"
             "  osb skills show SKILL\n"
             "One skill, or all of them, for one assistant:\n"
             "  osb skills install SKILL --target TARGET --scope SCOPE\n"
             "  osb skills install --all-builtins --target TARGET --scope SCOPE\n\n"
             "Skills: ",
             why);
    add_names(&text);
    buf_add(&text, STR("\nTargets: "));
    for (size_t i = 0; i < skill_target_count; i++)
        buf_addf(&text, "%s, ", skill_targets[i].name);
    buf_add(&text, STR("all\nScopes: project, global\n"));
    fputs(text.p, stderr);
    return EXIT_USAGE;
}

static int unknown(struct cli *cli, const char *slug)
{
    AUTO_BUF(why, DOC_BYTES_MAX);

    buf_addf(&why, "Invalid value for 'SKILL': '%.80s' is not one of ", slug);
    add_names(&why);
    return guide(cli, why.p);
}

static void write_operation(struct doc *doc, const struct job *job)
{
    json_write_object(&doc->w);
    doc_text(doc, "skill", job->skill.slug);
    doc_text(doc, "target", job->target->name);
    doc_text(doc, "target_label", job->target->label);
    doc_text(doc, "scope", job->global ? "global" : "project");
    doc_text(doc, "path", job->path);
    doc_text(doc, "status", job->status);
    json_member_bool(&doc->w, STR("requires_restart"), true);
    json_write_object_end(&doc->w);
}

static void add_line(struct buf *out, const struct job *job)
{
    buf_addf(out, "  %-15s %s [%s]: %s -> %s\n", job->status, job->target->label,
             job->global ? "global" : "project", job->skill.slug, job->path);
}

/* For each target and skill that is meant. What was done is told also when a later one fails. */
static int run_jobs(struct cli *cli, const char *slug, int (*work)(struct cli *, struct job *))
{
    const char *target = cli_text(cli, "target");
    bool global = strcmp(cli_text(cli, "scope"), "global") == 0;
    AUTO_BUF(lines, DOC_BYTES_MAX);
    struct doc doc;
    int r = 0;

    doc_begin(&doc);
    json_write_key(&doc.w, STR("operations"));
    json_write_array(&doc.w);
    for (size_t t = 0; t < skill_target_count; t++)
        for (size_t s = 0; s < skill_count() && r == 0; s++) {
            struct job job = job_of(cli, &skill_targets[t], skill_at(s), global);

            if ((slug && strcmp(slug, job.skill.slug) != 0) ||
                (strcmp(target, "all") != 0 && strcmp(target, job.target->name) != 0))
                continue;
            r = work(cli, &job);
            if (r)
                continue;
            write_operation(&doc, &job);
            add_line(&lines, &job);
        }
    json_write_array_end(&doc.w);
    json_member_bool(&doc.w, STR("requires_restart"), true);
    if (cli->format != FORMAT_TABLE) {
        cli_object(cli, NULL, &doc);
        return r;
    }
    doc_done(&doc);
    if (r == 0)
        buf_add(&lines, STR("\nRestart the assistant: it reads skills when it starts.\n"));
    return cli_write(lines.p, lines.n) < 0 ? EXIT_FAILED : r;
}

/* NULL when target and scope are there. */
static const char *missing(struct cli *cli)
{
    return !cli_text(cli, "target")  ? "Missing required option '--target'."
           : !cli_text(cli, "scope") ? "Missing required option '--scope'."
                                     : NULL;
}

int skills_install(struct cli *cli)
{
    const char *slug = cli_argument(cli, 0), *why = missing(cli);
    bool all = cli_flag(cli, "all-builtins");
    struct skill skill;

    if (slug && skill_find(str_of(slug), &skill) < 0)
        return unknown(cli, slug);
    if (slug && all)
        why = "Pass either a skill name or --all-builtins, not both.";
    else if (!slug && !all && !why)
        why = "Missing a skill name, or --all-builtins.";
    return why ? guide(cli, why) : run_jobs(cli, slug, install);
}

int skills_uninstall(struct cli *cli)
{
    const char *slug = cli_argument(cli, 0), *why = missing(cli);
    struct skill skill;

    if (slug && skill_find(str_of(slug), &skill) < 0)
        return unknown(cli, slug);
    return why ? guide(cli, why)
               : run_jobs(cli, slug ? slug : "sandbox-troubleshooting", uninstall);
}

/* --- list --- */

static void write_str(struct doc *doc, const char *key, struct str value)
{
    json_member_string(&doc->w, str_of(key), value);
}

static void write_skill(struct cli *cli, struct doc *doc, const struct skill *skill)
{
    struct skill_parts parts = {0};

    (void)skill_read(skill->text, &parts); /* a unit test reads them all */
    json_write_object(&doc->w);
    doc_text(doc, "slug", skill->slug);
    doc_text(doc, "package_file", arena_printf(&cli->arena, "%s.md", skill->slug));
    write_str(doc, "title", parts.title);
    write_str(doc, "summary", parts.summary);
    write_str(doc, "trigger_hint", parts.trigger);
    doc_text(doc, "marker_id", arena_printf(&cli->arena, "opensandbox-%s", skill->slug));
    doc_text(doc, "area", skill->area);
    doc_text(doc, "source_path", arena_printf(&cli->arena, "osb:skills/%s.md", skill->slug));
    json_write_object_end(&doc->w);
}

static const char *layout(struct cli *cli, const struct skill_target *target, bool global)
{
    return arena_printf(&cli->arena, "%s %s",
                        target->form == SKILL_BLOCK ? "a block per skill in" : "a file per skill:",
                        place(cli, target->path, "SKILL", global));
}

static void write_target(struct cli *cli, struct doc *doc, const struct skill_target *target,
                         bool global)
{
    json_write_object(&doc->w);
    doc_text(doc, "target", target->name);
    doc_text(doc, "scope", global ? "global" : "project");
    doc_text(doc, "label", target->label);
    doc_text(doc, "layout", layout(cli, target, global));
    json_write_key(&doc->w, STR("skills"));
    json_write_array(&doc->w);
    for (size_t i = 0; i < skill_count(); i++) {
        struct job job = job_of(cli, target, skill_at(i), global);

        json_write_object(&doc->w);
        doc_text(doc, "skill", job.skill.slug);
        doc_text(doc, "status", is_installed(cli, &job) ? "installed" : "not installed");
        doc_text(doc, "path", job.path);
        json_write_object_end(&doc->w);
    }
    json_write_array_end(&doc->w);
    json_write_object_end(&doc->w);
}

static int list_as_text(struct cli *cli)
{
    AUTO_BUF(out, DOC_BYTES_MAX);

    buf_add(&out, STR("Skills:\n"));
    for (size_t i = 0; i < skill_count(); i++) {
        struct skill skill = skill_at(i);
        struct skill_parts parts = {0};

        (void)skill_read(skill.text, &parts);
        buf_addf(&out, "  %-25s [%s] %.*s\n", skill.slug, skill.area, STR_ARG(parts.summary));
    }
    buf_add(&out, STR("\nTargets:\n"));
    for (size_t i = 0; i < 2 * skill_target_count; i++) {
        const struct skill_target *target = &skill_targets[i / 2];
        size_t n = 0;

        for (size_t s = 0; s < skill_count(); s++) {
            struct job job = job_of(cli, target, skill_at(s), i % 2);

            n += is_installed(cli, &job);
        }
        buf_addf(&out, "  %-9s %-8s %-15s %s; %zu of %zu installed\n", target->name,
                 i % 2 ? "global" : "project", target->label, layout(cli, target, i % 2), n,
                 skill_count());
    }
    return cli_write(out.p, out.n) < 0 ? EXIT_FAILED : EXIT_OK;
}

int skills_list(struct cli *cli)
{
    struct doc doc;

    if (cli->format == FORMAT_TABLE)
        return list_as_text(cli);
    doc_begin(&doc);
    json_write_key(&doc.w, STR("skills"));
    json_write_array(&doc.w);
    for (size_t i = 0; i < skill_count(); i++) {
        struct skill skill = skill_at(i);

        write_skill(cli, &doc, &skill);
    }
    json_write_array_end(&doc.w);
    json_write_key(&doc.w, STR("targets"));
    json_write_array(&doc.w);
    for (size_t i = 0; i < 2 * skill_target_count; i++)
        write_target(cli, &doc, &skill_targets[i / 2], i % 2);
    json_write_array_end(&doc.w);
    return cli_object(cli, NULL, &doc);
}

/* --- show --- */

static struct str first_section(struct str body)
{
    static const char *const headings[] = {
        "Minimal Closed Loops", "Golden Paths",    "Triage Order", "Core Workflow",
        "Command Map",          "Common Commands", "Fast Path",    "Inspect Current Policy",
        "Preferred Workflow"};
    struct str found = STR("");

    for (size_t i = 0; i < ARRAY_LEN(headings) && found.n == 0; i++)
        found = skill_section(body, str_of(headings[i]));
    return found;
}

int skills_show(struct cli *cli)
{
    struct skill_parts parts = {0};
    struct skill skill;
    struct str shapes;
    AUTO_BUF(out, DOC_BYTES_MAX);
    struct doc doc;

    if (skill_find(str_of(cli_argument(cli, 0)), &skill) < 0)
        return unknown(cli, cli_argument(cli, 0));
    if (skill_read(skill.text, &parts) < 0)
        return cli_error(cli, "Program", "the text of %s has no front matter", skill.slug);
    shapes = skill_section(parts.body, STR("JSON Shapes"));
    if (cli->format == FORMAT_TABLE) {
        buf_addf(&out,
                 "Skill: %s\nTitle: %.*s\nArea: %s\nSummary: %.*s\nTrigger: %.*s\n\n"
                 "When To Use:\n%.*s\n\nQuick Start:\n%.*s\n",
                 skill.slug, STR_ARG(parts.title), skill.area, STR_ARG(parts.summary),
                 STR_ARG(parts.trigger), STR_ARG(skill_section(parts.body, STR("When To Use"))),
                 STR_ARG(first_section(parts.body)));
        if (shapes.n)
            buf_addf(&out, "\nJSON Shapes:\n%.*s\n", STR_ARG(shapes));
        buf_addf(&out, "\nAll of it: osb skills show %s -o json\n", skill.slug);
        return cli_write(out.p, out.n) < 0 ? EXIT_FAILED : EXIT_OK;
    }
    doc_begin(&doc);
    doc_text(&doc, "skill", skill.slug);
    write_str(&doc, "title", parts.title);
    doc_text(&doc, "area", skill.area);
    write_str(&doc, "summary", parts.summary);
    write_str(&doc, "trigger_hint", parts.trigger);
    write_str(&doc, "when_to_use", skill_section(parts.body, STR("When To Use")));
    write_str(&doc, "quick_start", first_section(parts.body));
    if (shapes.n)
        write_str(&doc, "json_shapes", shapes);
    else
        doc_text(&doc, "json_shapes", NULL);
    write_str(&doc, "content", skill.text);
    return cli_object(cli, NULL, &doc);
}
