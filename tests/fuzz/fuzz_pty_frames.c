/* A text frame of a terminal's client: whatever it is, the frame that is read keeps its promises,
 * and what is said about it is one line of JSON. */
#include <signal.h>

#include "base/json.h"
#include "execd/pty/pty_frames.h"
#include "fuzz.h"

static void check_frame(const struct pty_frame *f)
{
    switch (f->type) {
    case PTY_FRAME_RESIZE:
        FUZZ_CHECK(f->cols > 0 && f->rows > 0);
        break;
    case PTY_FRAME_SIGNAL:
        FUZZ_CHECK(f->signo == SIGINT || f->signo == SIGTERM || f->signo == SIGKILL ||
                   f->signo == SIGQUIT || f->signo == SIGHUP);
        break;
    case PTY_FRAME_STDIN:
        FUZZ_CHECK(f->text.n > 0);
        break;
    default:
        break;
    }
}

/* The name of an unknown type goes back to the client. */
static void check_error(struct arena *a, struct str name)
{
    AUTO_BUF(out, 16 << 20);
    struct json *tree;
    struct str text;

    FUZZ_CHECK(pty_print_error(&out, "INVALID_FRAME", name) == 0);
    FUZZ_CHECK(out.n > 0 && str_find(buf_str(&out), '\n') == out.n - 1);
    FUZZ_CHECK(json_parse(a, buf_str(&out), NULL, &tree, NULL) == 0);
    FUZZ_CHECK(json_to_str(json_get(tree, STR("error")), &text) == 0);
    FUZZ_CHECK(str_eq(text, name)); /* what was read is valid UTF-8 */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_ARENA(arena, 64 << 20);
    struct pty_frame f;

    if (size > PTY_TEXT_BYTES_MAX)
        return 0;
    pty_frame_read(str_make((const char *)data, size), &arena, &f);
    check_frame(&f);
    if (f.type == PTY_FRAME_UNKNOWN)
        check_error(&arena, f.text);
    return 0;
}
