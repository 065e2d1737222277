/* fuzz_jupyter.c - a kernel's frames as a message, and a kernel.json.
 *
 * Frames are lines. What is signed by us must be told as it is; anything else may be refused, and
 * must not be told with a content. A line "SIGN" stands for the signature of those behind it. */
#include <string.h>

#include "base/codec.h"
#include "base/sha.h"
#include "execd/code/jupyter/jupyter_message.h"
#include "execd/code/jupyter/kernelspec.h"
#include "fuzz.h"

enum { ARENA_BYTES_MAX = 8 << 20 };

static const struct jupyter_session session = {.key = "key", .id = "id"};

static size_t split(struct str text, struct str frames[ZMTP_FRAMES_MAX])
{
    struct str line;
    size_t n = 0;

    while (n < ZMTP_FRAMES_MAX && str_cut(&text, '\n', &line))
        frames[n++] = line;
    return n;
}

/* Puts the right signature where it is asked for; true when it did. */
static bool sign(struct str *frames, size_t n, char out[HEX_TEXT_MAX(SHA256_BYTES)])
{
    struct hmac_sha256 h;
    uint8_t mac[SHA256_BYTES];
    size_t at = 0;

    while (at < n && !str_eq(frames[at], STR("SIGN")))
        at++;
    if (at + 4 >= n)
        return false;
    hmac_sha256_init(&h, STR("key"));
    for (size_t i = 1; i <= 4; i++)
        hmac_sha256_add(&h, frames[at + i]);
    hmac_sha256_end(&h, mac);
    hex_encode(str_make((const char *)mac, sizeof(mac)), out);
    frames[at] = str_of(out);
    return true;
}

static void check_message(struct str text, bool cut)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    struct zmtp_reader r = {.cut = cut};
    struct jupyter_message m;
    struct err e = {0};
    char signature[HEX_TEXT_MAX(SHA256_BYTES)];
    bool is_signed;

    r.frame_count = split(text, r.frames);
    is_signed = sign(r.frames, r.frame_count, signature);
    if (jupyter_message_read(&session, &r, &a, &m, &e) < 0) {
        FUZZ_CHECK(e.msg[0] != '\0');
        return;
    }
    FUZZ_CHECK(m.type.n > 0);
    FUZZ_CHECK(!m.content == !!m.lost);
    FUZZ_CHECK(!m.content || is_signed);
}

static void check_spec(struct str text)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    struct kernelspec spec = {.name = "k", .dir = "/k"};
    struct err e = {0};
    const char *const *argv, *program, *const *env;
    static const char *const none[] = {"PATH=/bin", NULL};

    if (kernelspec_parse(&a, text, &spec, &e) < 0) {
        FUZZ_CHECK(e.msg[0] != '\0');
        return;
    }
    FUZZ_CHECK(spec.argv_count > 0);
    (void)!kernelspec_command(&a, &spec, none, "/c", &program, &argv, &e);
    (void)!kernelspec_env(&a, &spec, none, &env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);

    if (size == 0)
        return 0;
    if (data[0] == '{')
        check_spec(text);
    else
        check_message(str_skip(text, 1), data[0] == 'c');
    return 0;
}
