/* store_pg_library.h - libpq, loaded when a store of PostgreSQL is opened: servers that keep their
 * state in SQLite neither need it nor pay for it. */
#pragma once

#include <libpq-fe.h>

#include "base/err.h"

/* The functions of libpq that we call, by their names without the prefix PQ. */
#define PG_FUNCTIONS(F)                                                                            \
    F(connectStart)                                                                                \
    F(connectPoll)                                                                                 \
    F(finish)                                                                                      \
    F(status)                                                                                      \
    F(socket)                                                                                      \
    F(errorMessage)                                                                                \
    F(setnonblocking)                                                                              \
    F(sendPrepare)                                                                                 \
    F(sendQuery)                                                                                   \
    F(sendQueryPrepared)                                                                           \
    F(setSingleRowMode)                                                                            \
    F(flush)                                                                                       \
    F(isBusy)                                                                                      \
    F(consumeInput)                                                                                \
    F(getResult)                                                                                   \
    F(clear)                                                                                       \
    F(resultStatus)                                                                                \
    F(resultErrorField)                                                                            \
    F(resultErrorMessage)                                                                          \
    F(cmdTuples)                                                                                   \
    F(ntuples)                                                                                     \
    F(getvalue)                                                                                    \
    F(getlength)                                                                                   \
    F(setNoticeProcessor)                                                                          \
    F(conninfoParse)                                                                               \
    F(conninfoFree)                                                                                \
    F(freemem)

struct pg_library {
    void *handle;
#define PG_POINTER(name) __typeof__(&PQ##name) name;
    PG_FUNCTIONS(PG_POINTER)
#undef PG_POINTER
};

/* -ENOENT, with what to install, when there is no libpq here. */
int pg_library_load(struct pg_library *ret, struct err *e);
void pg_library_unload(struct pg_library *pg);
