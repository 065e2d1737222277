#include "execd/shell_script.h"

#include <errno.h>

/* Variables of the loop are named so that nobody uses them by accident. `command` goes past
 * functions that the client called like a builtin, and keeps a shell alive where the failure of a
 * special builtin would end it. The trace of the loop itself, and what a closed descriptor makes it
 * say, go nowhere. `export -p` is what a successor of this shell begins with. */
#define LOOP(control, state, code, seen, first)                                                    \
    "__execd_new=$?; __execd_next() { __execd_x=-; case $- in *x*) __execd_x=x; set +x;; "         \
    "esac; " first "export -p >|/proc/self/fd/" state "; "                                         \
    "command echo \"$__execd_n $1 $__execd_new $__execd_x\" >&" control "; __execd_new=-; "        \
    "while IFS=' ' read -r __execd_k __execd_n <&" control "; do "                                 \
    "case $__execd_k in r) return 0;; esac; command echo \"$__execd_n 0 sync -\" >&" control "; "  \
    "done; return 1; }; "                                                                          \
    "while { __execd_next \"$?\"; } 2>/dev/null; do command . /proc/self/fd/" seen " " seen        \
    "<&" code " " code "<&- " state "<&- " control "<&- </dev/null; done\n"

/* A copy of the shell that was interrupted between fork and exec would read on in its place. And
 * what the shell does for SHELL_BREAK: interrupt itself, between two commands. */
#define BASH_FIRST                                                                                 \
    "case ${BASHPID-$$} in $$) ;; *) trap - EXIT; exit 130;; esac; "                               \
    "trap '{ command kill -INT ${BASHPID-$$}; } 2>/dev/null' " STRINGIFY(SHELL_BREAK) "; "

#define STRINGIFY(number) STRINGIFY_(number)
#define STRINGIFY_(text)  #text

#define BEGIN(state)                                                                               \
    "[ -s /proc/self/fd/" state " ] && command . /proc/self/fd/" state "; "                        \
    "PS1= PS2= __execd_n=-; true\n"

#define BEFORE_CODE(seen) "command exec " seen "<&-;"

static const char *const bash_argv[] = {
    "bash", "--noprofile", "--norc", "--noediting", "+H", "+o", "history", "-i", NULL,
};
static const char *const sh_argv[] = {"sh", "-i", NULL};

const struct shell_kind shell_kinds[] = {
    {
     "bash", bash_argv,
     LOOP("96", "97",   "98", "99", BASH_FIRST),
     BEGIN("97"),
     BEFORE_CODE("99"),
     {96, 97, 98},
     SHELL_BREAK, },
    {
     "sh",     sh_argv,
     LOOP("9",      "8", "7",                "6",            ""),
     BEGIN("8"),
     BEFORE_CODE("6"),
     {9, 8, 7},
     0, },
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
    int r = buf_add(out, STR("command cd -- "));

    if (r >= 0)
        r = shell_quote(out, str_of(cwd));
    return r < 0 ? r : buf_add(out, STR(" || return;"));
}

static int add_variable(struct buf *out, const struct json_pair *v)
{
    int r = buf_addf(out, "export %.*s=", STR_ARG(v->key));

    if (r >= 0)
        r = shell_quote(out, v->value);
    return r < 0 ? r : buf_add_char(out, ';');
}

/* On a line of its own: a shell reads whole lines, and what is wrong with the first of the code
 * must not keep the directory from being changed. */
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
