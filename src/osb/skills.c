/* skills.c - the table of skills and of assistants, and the texts that go into their files. */
#include "osb/skills.h"

#include <errno.h>

#include "osb/skills_texts.h"

static const struct {
    const char *slug, *area, *text;
    const size_t *len;
} skills[] = {
    {"sandbox-troubleshooting", "Troubleshooting", skill_sandbox_troubleshooting,
     &skill_sandbox_troubleshooting_len                                                                       },
    {"sandbox-lifecycle",       "Lifecycle",       skill_sandbox_lifecycle,       &skill_sandbox_lifecycle_len},
    {"command-execution",       "Execution",       skill_command_execution,       &skill_command_execution_len},
    {"file-operations",         "Files",           skill_file_operations,         &skill_file_operations_len  },
    {"network-egress",          "Network",         skill_network_egress,          &skill_network_egress_len   },
    {"credential-vault",        "Credentials",     skill_credential_vault,        &skill_credential_vault_len },
    {"troubleshoot-sandbox",    "Troubleshooting", skill_troubleshoot_sandbox,
     &skill_troubleshoot_sandbox_len                                                                          },
};

/* Claude Code finds <slug>/SKILL.md; scripts of the original tool expect <slug>.md. */
const struct skill_target skill_targets[] = {
    {"claude",   "Claude Code",    SKILL_FILE,  ".claude/skills/%s.md",            "%s/SKILL.md"},
    {"cursor",   "Cursor",         SKILL_RULE,  ".cursor/rules/%s.mdc",            NULL         },
    {"codex",    "Codex",          SKILL_FILE,  ".codex/skills/%s/SKILL.md",       NULL         },
    {"copilot",  "GitHub Copilot", SKILL_BLOCK, ".github/copilot-instructions.md", NULL         },
    {"windsurf", "Windsurf",       SKILL_BLOCK, ".windsurfrules",                  NULL         },
    {"cline",    "Cline",          SKILL_BLOCK, ".clinerules",                     NULL         },
    {"opencode", "OpenCode",       SKILL_FILE,  ".agents/skills/%s/SKILL.md",      NULL         },
};
const size_t skill_target_count = ARRAY_LEN(skill_targets);

size_t skill_count(void)
{
    return ARRAY_LEN(skills);
}

struct skill skill_at(size_t i)
{
    return (struct skill){skills[i].slug, skills[i].area, str_make(skills[i].text, *skills[i].len)};
}

int skill_find(struct str slug, struct skill *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(skills); i++)
        if (str_eq(slug, str_of(skills[i].slug))) {
            *ret = skill_at(i);
            return 0;
        }
    return -ENOENT;
}

/* --- reading --- */

static struct str trim_lines(struct str s)
{
    while (s.n > 0 && (s.p[0] == '\n' || s.p[0] == ' '))
        s = str_skip(s, 1);
    while (s.n > 0 && (s.p[s.n - 1] == '\n' || s.p[s.n - 1] == ' '))
        s.n--;
    return s;
}

/* "Does this. Use when that." */
static int read_description(struct str text, struct skill_parts *ret)
{
    size_t at = str_find_str(text, STR(" Use when "));

    if (at >= text.n)
        return -EINVAL;
    ret->summary = str_make(text.p, at);
    ret->trigger = str_skip(text, at + 1);
    return 0;
}

int skill_read(struct str text, struct skill_parts *ret)
{
    struct skill_parts parts = {0};
    struct str rest = text, line, front = STR("---");
    bool named = false, described = false;

    if (!str_cut(&rest, '\n', &line) || !str_eq(line, front))
        return -EINVAL;
    while (str_cut(&rest, '\n', &line) && !str_eq(line, front)) {
        named |= str_starts(line, STR("name: "));
        if (str_starts(line, STR("description: "))) {
            if (read_description(str_skip(line, strlen("description: ")), &parts) < 0)
                return -EINVAL;
            described = true;
        }
    }
    if (!named || !described || !str_eq(line, front))
        return -EINVAL;
    rest = trim_lines(rest);
    if (!str_starts(rest, STR("# ")) || !str_cut(&rest, '\n', &line))
        return -EINVAL;
    parts.title = str_skip(line, 2);
    parts.body = trim_lines(rest);
    *ret = parts;
    return 0;
}

struct str skill_section(struct str body, struct str heading)
{
    struct str line, mark = STR("## ");

    while (str_cut(&body, '\n', &line)) {
        const char *begin = body.p;

        if (!str_starts(line, mark) || !str_eq(str_skip(line, mark.n), heading))
            continue;
        while (str_cut(&body, '\n', &line) && !str_starts(line, mark))
            ;
        if (!begin)
            return STR("");
        return trim_lines(
            str_make(begin, (size_t)((str_starts(line, mark) ? line.p : line.p + line.n) - begin)));
    }
    return STR("");
}

/* --- writing --- */

int skill_write(const struct skill *skill, enum skill_form form, struct buf *out)
{
    struct skill_parts parts;

    if (form == SKILL_FILE)
        return buf_add(out, skill->text);
    if (skill_read(skill->text, &parts) < 0)
        return -EINVAL;
    return buf_addf(out, "# %.*s\n\n%.*s\n\n%.*s\n", STR_ARG(parts.title), STR_ARG(parts.summary),
                    STR_ARG(parts.body));
}

enum { MARKER_BYTES_MAX = 128 };
#define MARKER_BEGIN "<!-- BEGIN opensandbox-%s -->"
#define MARKER_END   "<!-- END opensandbox-%s -->"

int skill_block_find(struct str file, const char *slug, struct str *ret)
{
    char begin[MARKER_BYTES_MAX], end[MARKER_BYTES_MAX];
    size_t from, to;

    (void)snprintf(begin, sizeof(begin), MARKER_BEGIN, slug);
    (void)snprintf(end, sizeof(end), MARKER_END, slug);
    from = str_find_str(file, str_of(begin));
    to = str_find_str(file, str_of(end));
    if (from == file.n && to == file.n)
        return -ENOENT;
    if (from == file.n || to == file.n || to < from + strlen(begin))
        return -EBADMSG;
    *ret = str_make(file.p + from, to + strlen(end) - from);
    return 0;
}

static int add_block(struct buf *out, const char *slug, struct str block)
{
    return buf_addf(out, MARKER_BEGIN "\n%.*s\n" MARKER_END, slug, STR_ARG(trim_lines(block)),
                    slug);
}

int skill_block_put(struct str file, const char *slug, struct str block, struct buf *out)
{
    struct str old;
    int r = skill_block_find(file, slug, &old);

    if (r == -EBADMSG)
        return r;
    if (r == 0) {
        r = buf_add(out, str_make(file.p, (size_t)(old.p - file.p)));
        if (r == 0)
            r = add_block(out, slug, block);
        return r < 0 ? r : buf_add(out, str_skip(file, (size_t)(old.p - file.p) + old.n));
    }
    r = buf_add(out, file);
    if (r == 0 && file.n > 0)
        r = buf_add(out, file.p[file.n - 1] == '\n' ? STR("\n") : STR("\n\n"));
    if (r == 0)
        r = add_block(out, slug, block);
    return r < 0 ? r : buf_add_char(out, '\n');
}

int skill_block_cut(struct str file, const char *slug, struct buf *out)
{
    struct str block, head, tail;
    int r = skill_block_find(file, slug, &block);

    if (r < 0)
        return r;
    head = str_make(file.p, (size_t)(block.p - file.p));
    tail = str_skip(file, head.n + block.n);
    if (str_starts(tail, STR("\n")))
        tail = str_skip(tail, 1);
    if (str_ends(head, STR("\n\n")))
        head.n--;
    else if (head.n == 0 && str_starts(tail, STR("\n")))
        tail = str_skip(tail, 1);
    r = buf_add(out, head);
    return r < 0 ? r : buf_add(out, tail);
}
