#include "server/runtime/embedded/resolv.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include "base/io.h"

enum { RESOLV_BYTES_MAX = 64 * 1024 };

static struct str take_word(struct str *line)
{
    struct str word = str_trim(*line);
    size_t n = 0;

    while (n < word.n && word.p[n] != ' ' && word.p[n] != '\t')
        n++;
    *line = str_skip(word, n);
    return str_make(word.p, n);
}

size_t resolv_parse(struct str text, uint32_t *ret, size_t max)
{
    struct str line;
    size_t count = 0;

    while (count < max && str_cut(&text, '\n', &line)) {
        char address[INET_ADDRSTRLEN];
        struct in_addr addr;

        if (str_eq(take_word(&line), STR("nameserver")) &&
            str_copy(address, sizeof(address), take_word(&line)) == 0 &&
            inet_pton(AF_INET, address, &addr) == 1 && addr.s_addr != 0 &&
            ntohl(addr.s_addr) >> 24 != IN_LOOPBACKNET)
            ret[count++] = addr.s_addr;
    }
    return count;
}

size_t resolv_servers(uint32_t *ret, size_t max)
{
    static const char *const files[] = {"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"};
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(files) && count == 0; i++) {
        AUTO_BUF(text, RESOLV_BYTES_MAX);

        if (io_read_file(AT_FDCWD, files[i], RESOLV_BYTES_MAX, &text, NULL) == 0)
            count = resolv_parse(buf_str(&text), ret, max);
    }
    return count;
}
