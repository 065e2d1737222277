#include "egress/vault/secret.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"

enum { SECRET_ALIGN = 16, SECRET_PAGES_MIN = 1 };

struct secret_block {
    struct secret_block *older;
    size_t size; /* of the mapping, this header included */
    _Alignas(SECRET_ALIGN) char data[];
};

void secret_init(struct secret_arena *a, size_t max)
{
    *a = (struct secret_arena){.max = max};
}

void secret_done(struct secret_arena *a)
{
    struct secret_block *b = a->head;

    while (b) {
        struct secret_block *older = b->older;
        size_t size = b->size;

        mem_wipe(b, size);
        (void)munmap(b, size);
        b = older;
    }
    secret_init(a, a->max);
}

static int secret_grow(struct secret_arena *a, size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = (n + sizeof(struct secret_block) + page - 1) / page * page;
    struct secret_block *b;

    if (size > a->max || a->used > a->max - size)
        return -EMSGSIZE;
    b = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED)
        return -ENOMEM;
    if (mlock(b, size) < 0 || madvise(b, size, MADV_DONTDUMP) < 0 ||
        madvise(b, size, MADV_DONTFORK) < 0) {
        (void)munmap(b, size);
        return -ENOMEM;
    }
    b->older = a->head;
    b->size = size;
    a->head = b;
    a->at = 0;
    a->used += size;
    return 0;
}

void *secret_alloc(struct secret_arena *a, size_t n)
{
    size_t rounded;
    char *p;

    if (n > PTRDIFF_MAX / 2)
        return NULL;
    rounded = (max_size(n, 1) + SECRET_ALIGN - 1) & ~(size_t)(SECRET_ALIGN - 1);
    if (!a->head || rounded > a->head->size - sizeof(struct secret_block) - a->at)
        if (secret_grow(a, rounded) < 0)
            return NULL;
    p = a->head->data + a->at;
    a->at += rounded;
    return p;
}

void *secret_alloc_array(struct secret_arena *a, size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total))
        return NULL;
    return secret_alloc(a, total);
}

struct str secret_str(struct secret_arena *a, struct str s)
{
    char *p = secret_alloc(a, s.n + 1);

    if (!p)
        return STR_NONE;
    if (s.n)
        memcpy(p, s.p, s.n);
    return str_make(p, s.n);
}

int secret_confine(struct err *e)
{
    struct rlimit none = {0, 0};

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(e, errno, "forbid core dumps");
    if (setrlimit(RLIMIT_CORE, &none) < 0)
        return err_sys(e, errno, "forbid core dumps");
    return 0;
}
