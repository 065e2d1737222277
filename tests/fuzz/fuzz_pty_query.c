/* Output of a program with requests to its terminal: wherever it lies in a ring, the same bytes
 * become NUL (an ESC: CAN), no others change, and a second pass finds nothing. */
#include <stdlib.h>
#include <string.h>

#include "execd/pty/pty_query.h"
#include "fuzz.h"

enum { SIZE_MAX_TRIED = 1 << 16, SHIFT = 7 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char flat[SIZE_MAX_TRIED], ring[SIZE_MAX_TRIED + SHIFT];
    size_t cap = size + SHIFT, from = size / 2;

    if (size == 0 || size > SIZE_MAX_TRIED)
        return 0;
    memcpy(flat, data, size);
    for (size_t i = 0; i < size; i++)
        ring[(from + i) % cap] = (char)data[i];
    pty_query_blank(flat, size, 0, size);
    pty_query_blank(ring, cap, from, from + size);
    for (size_t i = 0; i < size; i++) {
        FUZZ_CHECK(flat[i] == ring[(from + i) % cap]);
        FUZZ_CHECK(flat[i] == (char)data[i] || flat[i] == '\0' ||
                   (flat[i] == 0x18 && data[i] == 0x1b));
    }
    memcpy(ring, flat, size);
    pty_query_blank(ring, size, 0, size);
    FUZZ_CHECK(memcmp(ring, flat, size) == 0);
    return 0;
}
