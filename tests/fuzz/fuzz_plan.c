/* The bytes are a plan, cut short or not: numbers first, then text. What plan_check takes must lie
 * within itself. Both live on the heap in their exact size, so that ASan sees a step outside. */
#include <string.h>

#include "fuzz.h"
#include "sandbox/plan.h"

static size_t check_strings(const struct plan *p, const char *const *list, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(list[i] >= p->text && list[i] < p->text + p->text_bytes);
        bytes += strlen(list[i]) + 1;
    }
    FUZZ_CHECK(!list[count]);
    return bytes;
}

static void check_accepted(const struct plan *p)
{
    const char **argv = malloc((PLAN_ARGS_MAX + 1) * sizeof(*argv));
    const char **env = malloc((PLAN_ENV_MAX + 1) * sizeof(*env));
    const char *targets[PLAN_BINDS_MAX + 1], *cwd = NULL;
    size_t bytes;

    FUZZ_CHECK(argv && env);
    plan_strings(p, argv, env, &cwd);
    bytes = check_strings(p, argv, p->arg_count) + check_strings(p, env, p->env_count);
    FUZZ_CHECK(cwd == p->text + bytes && cwd[0] == '/');
    FUZZ_CHECK(p->bind_count <= PLAN_BINDS_MAX);
    FUZZ_CHECK((p->binds_read_only >> p->bind_count) == 0);
    plan_targets(p, targets);
    bytes += strlen(cwd) + 1 + check_strings(p, targets, p->bind_count);
    FUZZ_CHECK(bytes == p->text_bytes);
    for (size_t i = 0; i < p->bind_count; i++)
        FUZZ_CHECK(plan_target_is_valid(str_of(targets[i])) && strlen(targets[i]) > 1);
    FUZZ_CHECK(argv[0][0]);
    FUZZ_CHECK(p->layer_count <= PLAN_LAYERS_MAX);
    FUZZ_CHECK(p->uid < PLAN_UID_RANGE && p->gid < PLAN_UID_RANGE);
    FUZZ_CHECK(strnlen(p->id, sizeof(p->id)) < sizeof(p->id));
    FUZZ_CHECK(plan_id_is_valid(str_of(p->id)));
    free(argv);
    free(env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan *p = malloc(sizeof(*p));
    struct err e = {0};

    FUZZ_CHECK(p);
    memset(p, 'x', sizeof(*p)); /* no NUL that the input did not bring */
    memcpy(p, data, size < sizeof(*p) ? size : sizeof(*p));
    if (plan_check(p, &e) >= 0)
        check_accepted(p);
    else
        FUZZ_CHECK(e.code && e.msg[0]);
    free(p);
    return 0;
}
