#include "execd/pty/pty_proc.h"

#include <unistd.h>

#include "base/buf.h"
#include "folder.h"
#include "rig.h"

static struct world {
    struct rig rig;
    struct pty_proc proc;
    struct buf out, err_out;
    int starts, ends, rooms, exit_code;
    char why_not[256];
    size_t full_at; /* then on_output says no; 0 = never */
} w;                /* a test is a process of its own */

static void note_start(struct pty_proc *p UNUSED, const struct err *why_not)
{
    w.starts += !why_not;
    if (why_not)
        (void)snprintf(w.why_not, sizeof(w.why_not), "%s", why_not->msg);
}

static bool note_output(struct pty_proc *p UNUSED, enum pty_channel from, struct str data)
{
    CHECK(data.n > 0 && data.n <= PTY_READ_BYTES && !w.ends);
    CHECK_EQ(buf_add(from == PTY_CHANNEL_STDERR ? &w.err_out : &w.out, data), 0);
    return !w.full_at || w.out.n < w.full_at;
}

static void note_room(struct pty_proc *p UNUSED)
{
    w.rooms++;
}

static void note_end(struct pty_proc *p, int exit_code)
{
    CHECK_EQ(p->state, PTY_IDLE);
    w.ends++;
    w.exit_code = exit_code;
}

static const struct pty_proc_ops ops = {note_start, note_output, note_room, note_end};

static void world_open(void)
{
    rig_open(&w.rig);
    buf_init(&w.out, 16 << 20);
    buf_init(&w.err_out, 16 << 20);
    pty_proc_init(&w.proc, w.rig.loop, &w.rig.reaper, &ops);
}

static void world_close(void)
{
    pty_proc_done(&w.proc);
    rig_close(&w.rig);
    buf_done(&w.out);
    buf_done(&w.err_out);
}

static void start(bool is_pty, const char *text)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    static const struct child_place place = {0};
    const char *const argv[] = {"/bin/sh", "-c", text, NULL};
    struct pty_spec spec = {.is_pty = is_pty, .argv = argv, .env = env, .place = &place};

    CHECK_EQ(pty_proc_start(&w.proc, &spec, NULL), 0);
}

TEST(pty_proc, gives_a_terminal_and_both_directions_of_it)
{
    world_open();
    start(true, "test -t 0 && test -t 1 && test -t 2 && stty size && read x && echo \"got $x\"");
    RIG_UNTIL(&w.rig, w.out.n >= 7);
    CHECK_EQ(pty_proc_write(&w.proc, STR("this\n")), 5);
    RIG_UNTIL(&w.rig, w.ends == 1);
    CHECK_STR(w.out.p, "24 80\r\nthis\r\ngot this\r\n");
    CHECK(w.starts == 1 && w.exit_code == 0 && pty_proc_pid(&w.proc) == 0);
    world_close();
}

TEST(pty_proc, gives_pipes_with_a_channel_each)
{
    world_open();
    start(false, "echo out; echo err >&2; read x; echo \"got $x\"; kill -9 $$");
    CHECK_EQ(pty_proc_write(&w.proc, STR("this\n")), 5);
    RIG_UNTIL(&w.rig, w.ends == 1);
    CHECK_STR(w.out.p, "out\ngot this\n");
    CHECK_STR(w.err_out.p, "err\n");
    CHECK_EQ(w.exit_code, -1);
    world_close();
}

TEST(pty_proc, says_why_it_cannot_start_and_may_start_again)
{
    static const struct child_place place = {0};
    const char *const argv[] = {"/no/such/shell", NULL};
    struct pty_spec spec = {.is_pty = true, .argv = argv, .place = &place};

    world_open();
    CHECK_EQ(pty_proc_start(&w.proc, &spec, NULL), 0);
    RIG_UNTIL(&w.rig, w.why_not[0]);
    CHECK_STR(w.why_not, "exec '/no/such/shell': No such file or directory");
    CHECK_EQ(w.proc.state, PTY_IDLE);
    start(true, "exit 3");
    RIG_UNTIL(&w.rig, w.ends == 1);
    CHECK_EQ(w.exit_code, 3);
    world_close();
}

/* What is in the terminal when its leader ends stays there until it is asked for. */
TEST(pty_proc, holds_back_the_end_until_all_was_taken)
{
    world_open();
    w.full_at = 1;
    start(true, "stty -echo; printf a; read go; i=0; while [ $i -lt 1500 ]; do "
                "printf 123456789.; i=$((i+1)); done; exit 4");
    RIG_UNTIL(&w.rig, w.out.n == 1);
    CHECK_EQ(pty_proc_write(&w.proc, STR("\n")), 1);
    RIG_UNTIL(&w.rig, w.proc.state == PTY_DRAINING);
    rig_run_ms(&w.rig, 50);
    CHECK(w.ends == 0 && w.out.n < 15001);
    w.full_at = 0;
    pty_proc_resume(&w.proc);
    RIG_UNTIL(&w.rig, w.ends == 1);
    CHECK_EQ(w.out.n, 15001);
    CHECK_EQ(w.exit_code, 4);
    world_close();
}

static void ends_beside_a_writer(bool is_pty)
{
    world_open();
    start(is_pty, "trap '' HUP; (while :; do echo more || exit; sleep 0.01; done) & "
                  "sleep 0.1; exit 5");
    RIG_UNTIL(&w.rig, w.ends == 1);
    CHECK_EQ(w.exit_code, 5);
    world_close();
}

TEST(pty_proc, ends_although_another_process_holds_its_terminal)
{
    ends_beside_a_writer(true);
}

TEST(pty_proc, ends_although_another_process_holds_its_pipes)
{
    ends_beside_a_writer(false);
}

TEST(pty_proc, tells_a_writer_to_wait_and_when_to_go_on)
{
    static char piece[256 << 10];
    AUTO_FOLDER(folder);
    ssize_t n;

    world_open();
    start(false, "until [ -e go ]; do sleep 0.01; done; cat >/dev/null");
    n = pty_proc_write(&w.proc, str_make(piece, sizeof(piece)));
    CHECK(n > 0 && n < (ssize_t)sizeof(piece));
    CHECK_EQ(pty_proc_write(&w.proc, str_make(piece, 1 << 16)), 0);
    CHECK_EQ(w.rooms, 0);
    file_write("go", "");
    RIG_UNTIL(&w.rig, w.rooms > 0);
    CHECK(pty_proc_write(&w.proc, str_make(piece, sizeof(piece))) > 0);
    world_close();
}

TEST(pty_proc, refuses_input_without_a_reader)
{
    world_open();
    start(false, "exec <&-; echo deaf; sleep 100");
    RIG_UNTIL(&w.rig, w.out.n >= 5);
    CHECK_EQ(pty_proc_write(&w.proc, STR("hello?")), -EPIPE);
    CHECK_EQ(pty_proc_write(&w.proc, STR("hello?")), -EPIPE);
    pty_proc_signal(&w.proc, SIGTERM);
    RIG_UNTIL(&w.rig, w.ends == 1);
    CHECK_EQ(w.exit_code, -1);
    CHECK_EQ(pty_proc_write(&w.proc, STR("too late")), 8);
    world_close();
}

TEST(pty_proc, resizes_its_terminal)
{
    world_open();
    start(true, "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.02; done");
    RIG_UNTIL(&w.rig, w.out.n >= 7);
    pty_proc_resize(&w.proc, 132, 50);
    RIG_UNTIL(&w.rig, w.ends == 1);
    CHECK_STR(w.out.p, "ready\r\n50 132\r\n");
    world_close();
}
