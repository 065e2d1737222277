/* Objects of a cluster as the Kubernetes runtime reads them, and templates of administrators: read
 * or refused, and what is written of them is JSON. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "server/runtime/kubernetes/k8s_merge.h"
#include "server/runtime/kubernetes/k8s_status.h"
#include "server/runtime/kubernetes/k8s_template.h"

static void check_facts(const struct k8s_facts *f)
{
    FUZZ_CHECK(f->reason && memchr(f->message, '\0', sizeof(f->message)));
    FUZZ_CHECK(memchr(f->address, '\0', sizeof(f->address)));
    FUZZ_CHECK(memchr(f->pod, '\0', sizeof(f->pod)));
}

static void try_object(struct str text)
{
    AUTO_ARENA(arena, 16 << 20);
    AUTO_BUF(metadata, 16 << 20);
    auto_object *o = NULL;
    struct runtime_description d;
    struct k8s_facts f;
    bool unschedulable;
    char why[64];

    if (kube_object_parse(text, &o, NULL) < 0)
        return;
    k8s_facts_of_batch(o, &f);
    check_facts(&f);
    k8s_facts_of_agent(o, o, &f);
    check_facts(&f);
    k8s_pod_trouble(o, why, sizeof(why), &unschedulable);
    FUZZ_CHECK(memchr(why, '\0', sizeof(why)));
    (void)!k8s_metadata_write(o, &metadata);
    for (int agent = 0; agent < 2; agent++)
        if (k8s_describe(o, agent, &arena, &d, NULL) == 0)
            FUZZ_CHECK(d.entrypoint.n >= 2 && d.image.p && d.token.p);
}

/* A template below and over itself. */
static void try_template(struct str text)
{
    AUTO_ARENA(arena, 64 << 20);
    AUTO_BUF(out, 16 << 20);
    const struct json *template = NULL;
    struct json *again = NULL;
    struct json_writer w;

    if (k8s_template_parse(&arena, text, &template, NULL) < 0 || !template)
        return;
    json_write_begin(&w, &out);
    k8s_merge_write(&w, template, template, STR("sandbox"));
    if (json_write_end(&w) == 0)
        FUZZ_CHECK(json_parse(&arena, buf_str(&out), NULL, &again, NULL) != -EBADMSG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);

    try_object(text);
    try_template(text);
    return 0;
}
