/* jupyter_cell.c - messages between a kernel and execd.
 *
 *   shell   kernel_info_request ->  <- kernel_info_reply      until iopub is heard, too
 *           execute_request     ->  <- execute_reply
 *   iopub                           <- status busy, execute_input, stream..., status idle
 *
 * A cell is over after its reply and its idle status, which come on different sockets in either
 * order. All its output comes before the idle. Messages whose parent is not the current cell are
 * dropped, for example output of a thread that outlived its cell. */
#include "execd/code/jupyter/jupyter_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/json_write.h"
#include "base/log.h"
#include "base/time.h"
#include "execd/core/duration.h"

enum {
    ASK_AGAIN_MS = 20,
    ASK_AGAIN_MAX = 100, /* then a kernel that never publishes its state is accepted */
    IDLE_MS_MAX = 5000,  /* a publisher may drop messages, even an idle, if we read too slowly */
    ENTER_MS = 50,       /* from the start of a cell until ipykernel handles a signal */
    ENTER_MS_MAX = 500,  /* for a kernel that does not announce the start of a cell */
};

static struct str member(const struct json *v, const char *key)
{
    struct str s = STR_NONE;

    (void)json_to_str(json_get(v, str_of(key)), &s);
    return s;
}

/* --- end of a cell --- */

void jupyter_forget_cell(struct jupyter *j)
{
    j->busy = j->interrupted = j->replied = j->idle = j->failed = j->timed_out = false;
    j->entered_ns = 0;
    j->reply.content = NULL;
    j->text.left = STR_NONE;
    buf_done(&j->request);
    arena_done(&j->reply.arena);
    arena_done(&j->text.arena);
}

static void cell_error(struct jupyter *j, struct str name, struct str value,
                       const struct json *traceback)
{
    if (j->failed || j->timed_out)
        return;
    j->failed = true;
    j->owner->on_error(j->user, name.n ? name : STR("Error"), value, traceback);
}

static void cell_over(struct jupyter *j)
{
    enum kernel_end end;

    if (j->timed_out)
        end = KERNEL_TIMEOUT;
    else
        end = j->failed ? KERNEL_FAILED : KERNEL_OK;
    if (!j->reaped) /* else the timer of its death must remain */
        loop_timer_stop(j->loop, &j->timer);
    loop_timer_stop(j->loop, &j->soon);
    jupyter_forget_cell(j);
    j->owner->on_done(j->user, end);
}

void jupyter_cancel(struct jupyter *j)
{
    cell_error(j, STR("KeyboardInterrupt"), STR("interrupted before the kernel was ready"), NULL);
    cell_over(j);
}

/* Most kernels also published the error, before their idle. */
static void cell_finish(struct jupyter *j)
{
    const struct json *reply = j->reply.content;
    struct str status = member(reply, "status");

    if (str_eq(status, STR("error")))
        cell_error(j, member(reply, "ename"), member(reply, "evalue"),
                   json_get(reply, STR("traceback")));
    else if (str_starts(status, STR("abort")))
        cell_error(j, j->interrupted ? STR("KeyboardInterrupt") : STR("Aborted"),
                   STR("the kernel aborted the cell"), NULL);
    cell_over(j);
}

static void cell_on_no_idle(struct loop_timer *t);

static void cell_look(struct jupyter *j)
{
    if (j->replied && j->idle && j->text.left.n == 0)
        cell_finish(j);
    else if (j->replied)
        jupyter_set_timer(j, &j->soon, IDLE_MS_MAX, cell_on_no_idle);
}

static void cell_on_no_idle(struct loop_timer *t)
{
    struct jupyter *j = container_of(t, struct jupyter, soon);

    j->idle = !j->paused && j->text.left.n == 0; /* otherwise the idle may still be unread */
    cell_look(j);
}

/* --- interrupts --- */

static void cell_interrupt(struct loop_timer *t)
{
    struct jupyter *j = container_of(t, struct jupyter, soon);
    AUTO_BUF(frames, 4096);
    char id[JUPYTER_ID_MAX];

    if (j->child.pid <= 0)
        return;
    if (!j->interrupt_by_message)
        (void)kill(-j->child.pid, SIGINT);
    else if (jupyter_message_write(&j->session, "interrupt_request", STR("{}"), id, &frames) == 0)
        (void)!zmtp_conn_send(j->conns[JUPYTER_CONTROL], buf_str(&frames));
}

/* A signal that arrives before the cell's own code runs is ignored, or lost in the kernel's
 * code. */
void jupyter_interrupt(struct jupyter *j)
{
    uint64_t ms = ENTER_MS_MAX;

    if (j->replied)
        return;
    if (j->entered_ns > 0) {
        uint64_t since_ms = (loop_now_ns(j->loop) - j->entered_ns) / TIME_NS_PER_MS;

        ms = since_ms < ENTER_MS ? ENTER_MS - since_ms : 0;
    }
    if (ms > 0)
        jupyter_set_timer(j, &j->soon, ms, cell_interrupt);
    else
        cell_interrupt(&j->soon);
}

/* --- output --- */

/* The first piece of a text, cut between UTF-8 characters. */
static struct str first_piece(struct str text)
{
    size_t n = min_size(text.n, JUPYTER_PIECE_BYTES);

    while (n < text.n && n > 0 && (text.p[n] & 0xc0) == 0x80)
        n--;
    return str_make(text.p, n);
}

void jupyter_give_text(struct jupyter *j)
{
    struct jupyter_text *t = &j->text;

    while (t->left.n > 0 && (!j->paused || j->reaped)) {
        struct str piece = first_piece(t->left);

        t->left = str_skip(t->left, piece.n);
        j->owner->on_stream(j->user, t->type, piece);
    }
    if (t->left.n == 0)
        arena_done(&t->arena);
    else
        zmtp_conn_pause(j->conns[JUPYTER_IOPUB], true);
}

struct heard {
    const struct jupyter_message *message;
    struct arena *arena; /* moved away by a handler that keeps part of it; then empty */
};

static void keep_arena(struct arena *from, struct arena *to)
{
    arena_done(to);
    *to = *from;
    arena_init(from, 0);
}

static void on_stream(struct jupyter *j, struct heard *h)
{
    struct str text = member(h->message->content, "text");
    bool is_err = str_eq(member(h->message->content, "name"), STR("stderr"));

    if (text.n == 0)
        return;
    keep_arena(h->arena, &j->text.arena);
    j->text.type = is_err ? "stderr" : "stdout";
    j->text.left = text;
    jupyter_give_text(j);
}

static const struct json *bundle_of(const struct heard *h)
{
    const struct json *data = json_get(h->message->content, STR("data"));

    return json_count(data) > 0 && data->type == JSON_OBJECT ? data : NULL;
}

static void on_result(struct jupyter *j, struct heard *h)
{
    const struct json *bundle = bundle_of(h);
    uint64_t count = 0;

    (void)json_to_u64(json_get(h->message->content, STR("execution_count")), &count);
    if (bundle)
        j->owner->on_result(j->user, count, bundle);
}

static void on_display(struct jupyter *j, struct heard *h)
{
    const struct json *bundle = bundle_of(h);
    const struct json *transient = json_get(h->message->content, STR("transient"));
    bool update = str_eq(h->message->type, STR("update_display_data"));

    if (bundle)
        j->owner->on_display(j->user, member(transient, "display_id"), update, bundle);
}

static void on_error(struct jupyter *j, struct heard *h)
{
    const struct json *content = h->message->content;

    cell_error(j, member(content, "ename"), member(content, "evalue"),
               json_get(content, STR("traceback")));
}

static void on_entered(struct jupyter *j, struct heard *h UNUSED)
{
    j->entered_ns = loop_now_ns(j->loop);
    if (j->interrupted || j->timed_out)
        jupyter_interrupt(j);
}

static void on_status(struct jupyter *j, struct heard *h)
{
    if (str_eq(member(h->message->content, "execution_state"), STR("idle"))) {
        j->idle = true;
        cell_look(j);
    }
}

/* Messages about a cell. Others (clear_output, comm_msg, ...) are for notebooks. */
static const struct {
    struct str type;
    void (*take)(struct jupyter *j, struct heard *h);
} published[] = {
    {STR_INIT("stream"),              on_stream },
    {STR_INIT("execute_result"),      on_result },
    {STR_INIT("display_data"),        on_display},
    {STR_INIT("update_display_data"), on_display},
    {STR_INIT("error"),               on_error  },
    {STR_INIT("execute_input"),       on_entered},
    {STR_INIT("status"),              on_status },
};

static void on_lost(struct jupyter *j, const struct jupyter_message *m)
{
    char text[160];

    (void)snprintf(text, sizeof(text),
                   "a message of type %.*s cannot be passed on: %s (%d MiB are "
                   "allowed)",
                   (int)min_size(m->type.n, 40), m->type.p, m->lost, ZMTP_MESSAGE_BYTES_MAX >> 20);
    cell_error(j, STR("OutputLost"), str_of(text), NULL);
}

static void iopub_take(struct jupyter *j, struct heard *h)
{
    size_t i = 0;

    while (i < ARRAY_LEN(published) && !str_eq(published[i].type, h->message->type))
        i++;
    if (i == ARRAY_LEN(published))
        return;
    if (h->message->lost)
        on_lost(j, h->message);
    else
        published[i].take(j, h);
}

/* --- start --- */

static void jupyter_begin(struct jupyter *j);

static void ask_info(struct jupyter *j)
{
    AUTO_BUF(frames, 4096);
    int r =
        jupyter_message_write(&j->session, "kernel_info_request", STR("{}"), j->info_id, &frames);

    if (r >= 0)
        r = zmtp_conn_send(j->conns[JUPYTER_SHELL], buf_str(&frames));
    if (r < 0)
        jupyter_break(j, "no memory to speak to the kernel");
}

static void ask_again(struct loop_timer *t)
{
    ask_info(container_of(t, struct jupyter, soon));
}

void jupyter_on_ready(void *user, struct zmtp_conn *c)
{
    struct jupyter *j = user;
    bool both =
        zmtp_conn_is_ready(j->conns[JUPYTER_SHELL]) && zmtp_conn_is_ready(j->conns[JUPYTER_IOPUB]);

    if (both && (c == j->conns[JUPYTER_SHELL] || c == j->conns[JUPYTER_IOPUB]))
        ask_info(j);
}

/* The subscription and the question travel in parallel. What is published before the subscription
 * arrives is lost. */
static void on_info(struct jupyter *j)
{
    if (j->ready)
        return;
    if (!j->heard && j->info_asked++ < ASK_AGAIN_MAX) {
        jupyter_set_timer(j, &j->soon, ASK_AGAIN_MS, ask_again);
        return;
    }
    loop_timer_stop(j->loop, &j->timer);
    j->ready = true;
    if (j->busy)
        jupyter_begin(j);
}

/* --- replies --- */

static void on_reply(struct jupyter *j, struct heard *h)
{
    if (h->message->lost)
        on_lost(j, h->message);
    keep_arena(h->arena, &j->reply.arena);
    j->reply.content = h->message->content;
    j->replied = true;
    cell_look(j);
}

/* allow_stdin was false; a kernel that asks all the same would wait for ever. */
static void on_input_request(struct jupyter *j)
{
    j->owner->on_stream(j->user, "stderr", STR("input is not possible here, interrupting\n"));
    jupyter_interrupt(j);
}

static void jupyter_take(struct jupyter *j, const struct zmtp_conn *c, struct heard *h)
{
    struct str type = h->message->type, parent = h->message->parent;
    bool of_cell = j->busy && j->request.n == 0 && str_eq(parent, str_of(j->id));

    if (c == j->conns[JUPYTER_IOPUB]) {
        j->heard = true;
        if (of_cell && j->replied)
            cell_look(j); /* its idle is still to come */
        if (of_cell)
            iopub_take(j, h);
        return;
    }
    if (str_eq(type, STR("kernel_info_reply")) && str_eq(parent, str_of(j->info_id)))
        on_info(j);
    else if (of_cell && str_eq(type, STR("input_request")))
        on_input_request(j);
    else if (of_cell && str_eq(type, STR("execute_reply")))
        on_reply(j, h); /* the message may be freed afterwards */
}

void jupyter_on_message(void *user, struct zmtp_conn *c, const struct zmtp_reader *m)
{
    AUTO_ARENA(a, JUPYTER_ARENA_BYTES_MAX);
    struct jupyter *j = user;
    struct jupyter_message message;
    struct heard h = {&message, &a};
    struct err e = {0};

    if (jupyter_message_read(&j->session, m, &a, &message, &e) < 0) {
        log_event(LOG_WARN, "a kernel's message is ignored", LOG_STR("kernel", j->name),
                  LOG_STR("why", e.msg));
        return;
    }
    jupyter_take(j, c, &h);
}

/* --- cells --- */

static void cell_on_grace_over(struct loop_timer *t)
{
    struct jupyter *j = container_of(t, struct jupyter, timer);
    char why[JUPYTER_WHY_MAX];

    (void)snprintf(why, sizeof(why),
                   "timeout after %s; the cell did not end on an interrupt within %d ms: "
                   "signal: killed",
                   duration_text_of_ms(j->timeout_ms).s, JUPYTER_GRACE_MS);
    jupyter_break(j, why);
}

static void cell_on_timeout(struct loop_timer *t)
{
    struct jupyter *j = container_of(t, struct jupyter, timer);

    j->timed_out = true;
    jupyter_interrupt(j);
    jupyter_set_timer(j, &j->timer, JUPYTER_GRACE_MS, cell_on_grace_over);
}

static void jupyter_begin(struct jupyter *j)
{
    int r = zmtp_conn_send(j->conns[JUPYTER_SHELL], buf_str(&j->request));

    buf_done(&j->request);
    if (r < 0)
        jupyter_break(j, "the kernel's connection does not take the cell");
    else if (j->timeout_ms > 0)
        jupyter_set_timer(j, &j->timer, j->timeout_ms, cell_on_timeout);
}

static int write_execute(struct jupyter *j, struct str code)
{
    AUTO_BUF(content, JUPYTER_REQUEST_BYTES_MAX);
    struct json_writer w;
    int r;

    json_write_begin(&w, &content);
    json_write_object(&w);
    json_member_string(&w, STR("code"), code);
    json_member_bool(&w, STR("silent"), false);
    json_member_bool(&w, STR("store_history"), true);
    json_write_key(&w, STR("user_expressions"));
    json_write_raw(&w, STR("{}"));
    json_member_bool(&w, STR("allow_stdin"), false);
    json_member_bool(&w, STR("stop_on_error"), true);
    json_write_object_end(&w);
    r = json_write_end(&w);
    if (r < 0)
        return r;
    return jupyter_message_write(&j->session, "execute_request", buf_str(&content), j->id,
                                 &j->request);
}

int jupyter_run(struct kernel *k, struct str code, uint64_t timeout_ms, struct err *e)
{
    struct jupyter *j = container_of(k, struct jupyter, kernel);
    int r;

    if (j->why[0] || j->reaped)
        return err_set(e, EPIPE, "%s", j->why);
    if (j->busy)
        return err_set(e, EBUSY, "the kernel runs another cell");
    r = write_execute(j, code);
    if (r < 0)
        return err_set(e, -r, "the cell is too large for the kernel");
    j->busy = true;
    j->timeout_ms = timeout_ms;
    if (j->ready)
        jupyter_begin(j);
    return 0;
}
