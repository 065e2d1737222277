/* code.h - the code interpreter: contexts that remember, and cells that run in them. */
#pragma once

#include <opensandbox/command.h>

#ifdef __cplusplus
extern "C" {
#endif

struct osb_context {
    size_t size;
    const char *language; /* "python" */
    const char *cwd, *kernel;
    const struct osb_pair *env;
    size_t env_count;
};
#define OSB_CONTEXT .size = sizeof(struct osb_context)

int osb_context_create(struct osb_sandbox *sandbox, const struct osb_context *context,
                       char ret_id[OSB_ID_MAX]);
/* "id", "language", "state"; of a list "[0].id" and so on. language NULL = all. */
int osb_context_get(struct osb_sandbox *sandbox, const char *id, struct osb_answer **ret_answer);
int osb_context_list(struct osb_sandbox *sandbox, const char *language,
                     struct osb_answer **ret_answer);
int osb_context_delete(struct osb_sandbox *sandbox, const char *id);
int osb_context_delete_all(struct osb_sandbox *sandbox, const char *language);

struct osb_code {
    size_t size;
    const char *code;
    const char *context_id; /* or the default context of: */
    const char *language;
    int64_t timeout_ms; /* after which the cell is interrupted; 0 = none */
    osb_event_fn *on_event;
    void *user;
    bool discard;
    size_t output_bytes_max;
};
#define OSB_CODE .size = sizeof(struct osb_code)

int osb_code_run(struct osb_sandbox *sandbox, const struct osb_code *code,
                 struct osb_execution **ret_execution);
int osb_code_interrupt(struct osb_sandbox *sandbox, const char *context_id);

#ifdef __cplusplus
}
#endif
