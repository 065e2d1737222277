#include "execd/shell/shell_script.h"

#include <errno.h>

/* Definitions of a client must not interfere. In bash, functions precede builtins, even the special
 * builtins of POSIX, except in POSIX mode; a quoted word is no alias. So builtins are called
 * through SHELL_AS: `builtin` in bash, `command` in other shells, which bypass functions; `own`
 * removes a function of that one name. Other shells are always in POSIX mode, and `command` also
 * keeps them alive where a failing special builtin would exit. Aliases are defined after the line
 * that defines our functions, so they do not affect it.
 *
 * Variables have names that no client uses by accident. A line that is read into one variable does
 * not depend on IFS except for its last character, hence the final '.'. A `read` that TMOUT ended
 * (status above 128) is repeated; any other failure ends the loop: 1 at end of file, 2 from a dash
 * that cannot read at all. The loop's own trace and errors about closed descriptors are discarded.
 * `export -p` saves the variables for the next shell. */
#define BEGIN(as, own, control, state, first)                                                      \
    "__execd_as=" as "; " own "; " SHELL_AS ". /proc/self/fd/" state "; "                          \
    "__execd_say() { " SHELL_AS "echo \"$1\" || " SHELL_AS "printf '%s\\n' \"$1\"; } "             \
    ">&" control "; "                                                                              \
    "__execd_next() { " own "; __execd_x=-; "                                                      \
    "case $- in *x*) __execd_x=x; " SHELL_AS "set +x;; esac; " first "" SHELL_AS                   \
    "export -p >|/proc/self/fd/" state "; "                                                        \
    "__execd_say \"$__execd_n $1 $__execd_new $__execd_x\"; __execd_new=-; "                       \
    "while " SHELL_AS "read -r __execd_k <&" control " || "                                        \
    "case $? in 129|1[3-9]?|2[0-9]?) ;; *) " SHELL_AS "return 1;; esac; "                          \
    "do __execd_n=${__execd_k#??}; __execd_n=${__execd_n%.}; case $__execd_k in "                  \
    "r*) " SHELL_AS "return 0;; s*) __execd_say \"$__execd_n 0 sync -\";; esac; done; }; "         \
    "PS1= PS2= __execd_n=-\n"

#define LOOP(control, state, code, seen)                                                           \
    "__execd_new=$?; while { __execd_next \"$?\"; } 2>/dev/null; "                                 \
    "do " SHELL_AS ". /proc/self/fd/" seen " " seen "<&" code " "                                  \
    "" code "<&- " state "<&- " control "<&- </dev/null; done\n"

#define SH_OWN "unset -f command"

/* The trap for SHELL_BREAK: the shell interrupts itself between two commands. */
#define BREAK(own, pid)                                                                            \
    "" SHELL_AS "trap '{ " own "; " SHELL_AS "kill -INT \"" pid                                    \
    "\"; } 2>/dev/null' " STRINGIFY(SHELL_BREAK) "; "

/* A forked copy of the shell that was interrupted before its exec would read the loop, too: it
 * exits. */
#define BASH_FIRST                                                                                 \
    "case ${BASHPID-$$} in $$) ;; *) " SHELL_AS "trap - EXIT; " SHELL_AS "exit 130;; esac; "       \
    "" BREAK(BASH_OWN, "${BASHPID-$$}")

/* POSIXLY_CORRECT enables POSIX mode for the duration of the function. `exec` changes descriptors
 * permanently only if called by its own name. */
#define BASH_BEGIN                                                                                 \
    "__execd_own() { unset -f builtin; }; __execd_hide() { exec 99<&-; }; "                        \
    "" BEGIN("builtin", BASH_OWN, "96", "97", BASH_FIRST)
#define BASH_OWN "POSIXLY_CORRECT= __execd_own"

#define STRINGIFY(number) STRINGIFY_(number)
#define STRINGIFY_(text)  #text

static const char *const bash_argv[] = {
    "bash", "--noprofile", "--norc", "--noediting", "+H", "+o", "history", "-i", NULL,
};
static const char *const sh_argv[] = {"sh", "-i", NULL};

static const char bash_begin[] = BASH_BEGIN, bash_loop[] = LOOP("96", "97", "98", "99");
static const char bash_hide[] = "POSIXLY_CORRECT= __execd_hide;";
static const char sh_begin[] = BEGIN("command", SH_OWN, "9", "8", BREAK(SH_OWN, "$$"));
static const char sh_loop[] = LOOP("9", "8", "7", "6");

const struct shell_kind shell_kinds[] = {
    {"bash", bash_argv, bash_loop, bash_begin, bash_hide,      {96, 97, 98}},
    {"sh",   sh_argv,   sh_loop,   sh_begin,   "\\exec 6<&-;", {9, 8, 7}   },
};
const size_t shell_kind_count = ARRAY_LEN(shell_kinds);

static int parse_status(struct str text, int *ret)
{
    uint64_t status;

    if (str_to_u64_range(text, 0, 255, &status) < 0)
        return -EBADMSG;
    *ret = (int)status;
    return 0;
}

int shell_report_parse(struct str line, struct shell_report *ret)
{
    struct shell_report r = {0};
    struct str field[4], rest = line;

    for (size_t i = 0; i < ARRAY_LEN(field); i++)
        if (!str_cut(&rest, ' ', &field[i]))
            return -EBADMSG;
    if (rest.p || parse_status(field[1], &r.status) < 0)
        return -EBADMSG;
    r.nonce = field[0];
    r.sync = str_eq(field[2], STR("sync"));
    r.begun = !r.sync && !str_eq(field[2], STR("-"));
    r.trace = str_eq(field[3], STR("x"));
    if (r.begun && parse_status(field[2], &r.status) < 0)
        return -EBADMSG;
    *ret = r;
    return 0;
}

int shell_quote(struct buf *out, struct str text)
{
    struct str piece;
    size_t start = out->n;
    int r = buf_add_char(out, '\'');
    bool first = true;

    while (r >= 0 && str_cut(&text, '\'', &piece)) {
        if (!first)
            r = buf_add(out, STR("'\\''"));
        if (r >= 0)
            r = buf_add(out, piece);
        first = false;
    }
    if (r >= 0)
        r = buf_add_char(out, '\'');
    if (r < 0)
        buf_cut(out, start);
    return r;
}

bool shell_is_name(struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];

        if (!ascii_is_alpha(c) && c != '_' && (i == 0 || !ascii_is_digit(c)))
            return false;
    }
    return name.n > 0;
}

int shell_check_envs(const struct json_pair *envs, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++)
        if (!shell_is_name(envs[i].key) || str_has_nul(envs[i].value))
            return err_set(e, EINVAL, "envs: '%.*s' cannot be a variable of a shell",
                           STR_ARG(envs[i].key));
    return 0;
}

static int add_cwd(struct buf *out, const char *cwd)
{
    int r = buf_add(out, STR(SHELL_AS "cd -- "));

    if (r >= 0)
        r = shell_quote(out, str_of(cwd));
    return r < 0 ? r : buf_add(out, STR(" || " SHELL_AS "return;"));
}

static int add_variable(struct buf *out, const struct json_pair *v)
{
    int r = buf_addf(out, SHELL_AS "export %.*s=", STR_ARG(v->key));

    if (r >= 0)
        r = shell_quote(out, v->value);
    return r < 0 ? r : buf_add_char(out, ';');
}

/* Ends with a line feed: a shell parses whole lines, and a syntax error in the first line of the
 * code must not prevent the cd. */
int shell_setup(struct buf *out, const char *cwd, const struct json_pair *envs, size_t count)
{
    size_t start = out->n;
    int r = cwd ? add_cwd(out, cwd) : 0;

    for (size_t i = 0; i < count && r >= 0; i++)
        r = add_variable(out, &envs[i]);
    if (r >= 0 && out->n > start)
        r = buf_add_char(out, '\n');
    if (r < 0)
        buf_cut(out, start);
    return r;
}
