#include "server/store/store_pg_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

int pg_library_load(struct pg_library *ret, struct err *e)
{
    struct pg_library pg = {.handle = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL)};

    if (!pg.handle)
        return err_set(e, ENOENT, "PostgreSQL's client library is missing (package libpq5): %s",
                       dlerror());
        /* POSIX lets a pointer to an object become one to a function by copying it. */
#define PG_FIND(name)                                                                              \
    do {                                                                                           \
        void *at = dlsym(pg.handle, "PQ" #name);                                                   \
        if (!at) {                                                                                 \
            (void)dlclose(pg.handle);                                                              \
            return err_set(e, ENOSYS, "libpq.so.5 has no PQ" #name);                               \
        }                                                                                          \
        memcpy(&pg.name, &at, sizeof(at));                                                         \
    } while (0);
    PG_FUNCTIONS(PG_FIND)
#undef PG_FIND
    *ret = pg;
    return 0;
}

void pg_library_unload(struct pg_library *pg)
{
    if (pg->handle)
        (void)dlclose(pg->handle);
    pg->handle = NULL;
}
