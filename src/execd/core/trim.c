#include "execd/core/trim.h"

#include <link.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096, TRIM_AFTER_NS = 1000 * 1000 * 1000 };

static int trim_object(struct dl_phdr_info *info, size_t size UNUSED, void *user UNUSED)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t from = (info->dlpi_addr + h->p_vaddr) & ~(uintptr_t)(PAGE_BYTES - 1);
        uintptr_t to = info->dlpi_addr + h->p_vaddr + h->p_memsz;

        if (h->p_type == PT_LOAD && !(h->p_flags & PF_W))
            (void)madvise((void *)from, to - from,
                          MADV_DONTNEED); /* on failure the pages stay mapped */
    }
    return 1; /* stop: the program is listed first, the other mappings are not its file */
}

static void trim_on_timer(struct loop_timer *timer)
{
    struct trim *t = container_of(timer, struct trim, timer);

    t->due = false;
    (void)dl_iterate_phdr(trim_object, NULL);
}

void trim_init(struct trim *t, struct loop *loop)
{
    *t = (struct trim){.loop = loop};
}

void trim_soon(struct trim *t)
{
    if (t->due)
        return;
    t->due = true;
    loop_timer_set(t->loop, &t->timer, loop_now_ns(t->loop) + TRIM_AFTER_NS, trim_on_timer);
}

void trim_done(struct trim *t)
{
    if (t->loop)
        loop_timer_stop(t->loop, &t->timer);
}
