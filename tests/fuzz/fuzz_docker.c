/* What a Docker engine says: descriptions of containers, events, output in frames, reports of
 * pulls. Read or refused, and never more than there is. */
#include <string.h>

#include "fuzz.h"
#include "server/runtime/docker/docker_internal.h"
#include "server/runtime/docker/pull_report.h"

static void try_container(struct str text)
{
    AUTO_ARENA(arena, 1 << 20);
    struct json *tree = NULL;
    struct docker_facts facts;
    struct err e = {0};

    if (json_parse(&arena, text, NULL, &tree, NULL) < 0)
        return;
    if (docker_facts_read(tree, "o", "bridge", &facts, &e) < 0)
        FUZZ_CHECK(e.code != 0);
    else
        FUZZ_CHECK(memchr(facts.token, '\0', sizeof(facts.token)));
}

static void try_pull(struct str text)
{
    struct pull_report p;
    char message[64];

    pull_report_init(&p);
    pull_report_feed(&p, str_make(text.p, text.n / 2));
    pull_report_feed(&p, str_skip(text, text.n / 2));
    pull_report_message(&p, STR("x"), message, sizeof(message));
    FUZZ_CHECK(memchr(message, '\0', sizeof(message)) && p.layers.n <= PULL_LAYERS_MAX);
    pull_report_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);
    AUTO_BUF(out, 1 << 20);
    char id[ID_UUID_MAX];

    try_container(text);
    try_pull(text);
    if (docker_event_read(text, id, sizeof(id)))
        FUZZ_CHECK(id[0] && strlen(id) < sizeof(id));
    if (docker_logs_unframe(text, &out) == 0)
        FUZZ_CHECK(out.n <= size);
    return 0;
}
