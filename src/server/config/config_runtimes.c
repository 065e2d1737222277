/* config_runtimes.c - OCI runtimes of the embedded runtime: those that requests may name, and the
 * one that all others get. */
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "sandbox/oci.h"
#include "server/config/config_internal.h"

/* Where programs are looked for that are named without a path. */
static const char *const program_dirs[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                           "/usr/bin",        "/sbin",          "/bin"};

/* The usual program of a name; when there is none, where it is expected. */
static const char *find_usual(struct arena *a, const char *name)
{
    const char *program = oci_kind_find(str_of(name))->program;

    for (size_t i = 0; program[0] && i < ARRAY_LEN(program_dirs); i++) {
        const char *path = arena_printf(a, "%s/%s", program_dirs[i], program);

        if (path && access(path, X_OK) == 0)
            return path;
    }
    return arena_printf(a, "/usr/local/bin/%s", program[0] ? program : name);
}

static void add(struct config *c, const char *name, const char *command)
{
    bool native = strcmp(name, CONFIG_RUNTIME_NATIVE) == 0;

    c->runtimes[c->runtime_count++] =
        (struct config_oci_runtime){name, native       ? ""
                                          : command[0] ? command
                                                       : find_usual(&c->arena, name)};
}

static const char *check(const struct config_pair *pair)
{
    bool native = strcmp(pair->name, CONFIG_RUNTIME_NATIVE) == 0;

    if (!pair->name[0] || !plan_runtime_is_valid(str_of(pair->name)))
        return "expected a name of a-z, 0-9 and '-', of 15 bytes at most";
    if (native && pair->value[0])
        return "native has no program; expected \"\"";
    if (!native && pair->value[0] && pair->value[0] != '/')
        return "expected \"/absolute/path\", with further arguments if need be, or \"\"";
    return strlen(pair->value) < OCI_COMMAND_MAX ? NULL : "the command is too long";
}

void config_runtimes(struct config *c, const struct toml *root, struct config_report *report)
{
    const struct config_pairs *pairs = &c->embedded.runtimes;
    const struct toml *table = toml_get_path(root, STR("embedded.runtimes"));
    struct str all =
        config_word(config_rows[CONFIG_ROW_secure_runtime_type].words, c->secure_runtime.type);

    c->runtimes = arena_new_array(&c->arena, struct config_oci_runtime, pairs->count + 1);
    c->runtime_of_all = arena_printf(&c->arena, "%.*s", STR_ARG(all));
    if (!c->runtimes || !c->runtime_of_all)
        return;
    for (size_t i = 0; i < pairs->count; i++) {
        const struct config_pair *pair = &pairs->at[i];
        const struct toml *v = toml_get(table, str_of(pair->name));
        struct config_place at = {c->path, v ? toml_pos(v) : (struct toml_pos){0}};
        const char *wrong = check(pair);

        if (wrong)
            config_error(report, &at, "embedded.runtimes.\"%.80s\": %s", pair->name, wrong);
        else if (c->runtime_count == OCI_RUNTIMES_MAX)
            config_error(report, &at, "embedded.runtimes: at most %d", OCI_RUNTIMES_MAX);
        else
            add(c, pair->name, pair->value);
    }
    if (all.n && !config_runtime_find(c, all))
        add(c, c->runtime_of_all, "");
}

const struct config_oci_runtime *config_runtime_find(const struct config *c, struct str name)
{
    for (size_t i = 0; i < c->runtime_count; i++)
        if (str_eq(name, str_of(c->runtimes[i].name)))
            return &c->runtimes[i];
    return NULL;
}

/* Whether it has an interpreter, as programs with shared libraries and scripts do: where it runs
 * there is nothing but the program. */
static bool wants_company(const char *path)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    size_t n = 0;

    if (fd < 0 || io_pread_full(fd, &head, sizeof(head), 0, &n) < 0)
        return false; /* the create says what is wrong */
    if (n < sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return true;
    for (unsigned i = 0; i < head.e_phnum && head.e_phentsize == sizeof(part); i++) {
        off_t at = (off_t)(head.e_phoff + i * sizeof(part));

        if (io_pread_full(fd, &part, sizeof(part), at, &n) < 0 || n < sizeof(part))
            return false;
        if (part.p_type == PT_INTERP)
            return true;
    }
    return false;
}

static void check_program(const struct config *c, const char *name, const char *path,
                          struct config_report *report)
{
    const char *key =
        strcmp(name, c->runtime_of_all) == 0 ? "secure_runtime.type" : "embedded.runtimes";

    if (access(path, X_OK) < 0)
        config_error(
            report, NULL,
            "%s: there is no program '%s'; install it, or say in embedded.runtimes where it is",
            key, path);
    else if (wants_company(path))
        config_error(report, NULL,
                     "%s: '%s' is a script or needs shared libraries, and where it runs there is "
                     "nothing but the program: name a static one",
                     key, path);
}

void config_runtimes_check_host(const struct config *c, struct config_report *report)
{
    for (size_t i = 0; i < c->runtime_count; i++) {
        const char *command = c->runtimes[i].command;
        struct str rest = str_of(command), path;
        char text[OCI_COMMAND_MAX];

        if (command[0] && str_cut(&rest, ' ', &path) && str_copy(text, sizeof(text), path) >= 0)
            check_program(c, c->runtimes[i].name, text, report);
    }
}
