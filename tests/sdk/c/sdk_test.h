/* sdk_test.h - a client and a sandbox for each test, on the server that the environment names. */
#pragma once

#include <opensandbox/opensandbox.h>

#include "test.h"

extern struct osb_client *client;
extern struct osb_sandbox *box;

void open_client(void);
void open_box(void); /* the client, too */
void close_all(void);

/* A call that must succeed; the SDK's message when it does not. */
#define GOOD(call)                                                                                 \
    do {                                                                                           \
        int good_ = (call);                                                                        \
        if (good_ < 0)                                                                             \
            test_fail(__FILE__, __LINE__, "%s: %d, %s", #call, good_,                              \
                      osb_error_message(osb_client_error(client)));                                \
    } while (0)
