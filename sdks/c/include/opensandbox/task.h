/* task.h - many calls at a time, on an event loop of the program.
 *
 * Outside of tasks every call blocks its thread. A task is a function with a stack of its own:
 * where a call would block, it is suspended, and the program goes on. So all functions of the
 * library are asynchronous inside tasks, and callbacks are not needed. Tasks of a client run one at
 * a time, on the thread that calls osb_client_dispatch or any other blocking function.
 *
 *   osb_task_start(client, work, &job, &task);
 *   while (!osb_task_ended(task)) {
 *       struct pollfd polled = {osb_client_fd(client), POLLIN, 0}; // and those of the program
 *       poll(&polled, 1, -1);
 *       osb_client_dispatch(client);
 *   }
 */
#pragma once

#include <opensandbox/client.h>

#ifdef __cplusplus
extern "C" {
#endif

struct osb_task;

enum { OSB_TASK_STACK_BYTES = 256 * 1024, OSB_TASKS_MAX = 4096 };

typedef void osb_task_fn(struct osb_client *client, void *user);

/* Begins at the next dispatch or blocking call. ret_task may be NULL: then nobody can join it, and
 * it is freed at its end. -EAGAIN when there are OSB_TASKS_MAX, -ENOMEM. */
int osb_task_start(struct osb_client *client, osb_task_fn *fn, void *user,
                   struct osb_task **ret_task);
bool osb_task_ended(const struct osb_task *task);
/* Its call in progress, else its next one, returns -ECANCELED. Later calls work, to clean up. */
void osb_task_cancel(struct osb_task *task);
int osb_task_join(struct osb_task *task); /* waits for its end, and frees it */

/* Becomes readable when osb_client_dispatch has work. Ask before each poll, as this also sets its
 * clock. The descriptor itself stays the same; do not read it. */
int osb_client_fd(struct osb_client *client);
/* Does what is due, without waiting. Not from inside a task. */
int osb_client_dispatch(struct osb_client *client);

/* Waits for a descriptor of the program: 1 when it is ready for POLLIN or POLLOUT, 0 when
 * timeout_ms passed (-1 = no limit). Not for regular files, which are always ready. */
int osb_wait_fd(struct osb_client *client, int fd, short events, int timeout_ms);
int osb_sleep(struct osb_client *client, uint32_t ms);

#ifdef __cplusplus
}
#endif
