#include "server/config/apikey.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"

enum { RANDOM_BYTES = 24 };
static_assert(BASE64_TEXT_MAX(RANDOM_BYTES) == APIKEY_LEN + 1, "24 bytes are 32 characters");

/* --- the file --- */

/* Refuses a file that other users can read or write. */
static int check_file(int fd, const char *path, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(e, errno, "look at '%s'", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, EINVAL, "'%s' is not a regular file: remove it, and a key is made", path);
    if (st.st_uid != geteuid())
        return err_set(e, EPERM, "'%s' belongs to user %u, and this is %u: chown or remove it",
                       path, st.st_uid, geteuid());
    if (st.st_mode & 077)
        return err_set(e, EPERM,
                       "'%s' can be read by others (mode %04o): remove it, and a key is made", path,
                       st.st_mode & 07777);
    return 0;
}

static bool is_key(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] <= ' ' || text.p[i] > '~')
            return false;
    return text.n > 0;
}

/* -ENOENT without a message when there is no file. */
static int read_key(int dir, struct apikey *k, struct err *e)
{
    auto_fd fd = openat(dir, APIKEY_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    auto_free char *text = mem_zalloc(APIKEY_FILE_BYTES_MAX + 1);
    size_t n = 0;
    int r;

    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    if (fd < 0)
        return err_sys(e, errno, "open '%s'", k->path);
    r = check_file(fd, k->path, e);
    if (r < 0)
        return r;
    r = io_read_full(fd, text, APIKEY_FILE_BYTES_MAX, DEADLINE_NEVER, &n);
    if (r < 0)
        return err_sys(e, -r, "read '%s'", k->path);
    if (n > 0 && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
    if (!is_key(str_make(text, n)))
        return err_set(e, EINVAL, "'%s' holds no key: remove it, and one is made", k->path);
    k->stored = take_ptr(&text);
    k->keys[0] = str_make(k->stored, n);
    k->count = 1;
    return 0;
}

/* Writes a temporary file and links it: the key file is complete, or does not exist. */
static int store_key(int dir, const char *path, struct str line, struct err *e)
{
    char temp[sizeof(APIKEY_FILE) + 1 + ID_SHORT_LEN_MAX] = APIKEY_FILE ".";
    auto_fd fd = -EBADF;
    int r;

    id_short(temp + strlen(temp), 16);
    fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "create '%s'", path);
    r = io_write_full(fd, line, DEADLINE_NEVER);
    if (r == 0 && (fsync(fd) < 0 || linkat(dir, temp, dir, APIKEY_FILE, 0) < 0))
        r = -errno;
    (void)unlinkat(dir, temp, 0);
    if (r == 0 && fsync(dir) < 0)
        r = -errno;
    if (r == -EEXIST) /* another server was faster: use its key */
        return 0;
    return r < 0 ? err_sys(e, -r, "write '%s'", path) : 0;
}

static int make_key(int dir, const char *path, struct err *e)
{
    char line[APIKEY_LEN + 2], bytes[RANDOM_BYTES];
    int r;

    id_random_bytes(bytes, sizeof(bytes));
    (void)base64_encode(str_make(bytes, sizeof(bytes)), BASE64_URL, line);
    line[APIKEY_LEN] = '\n';
    r = store_key(dir, path, str_make(line, APIKEY_LEN + 1), e);
    mem_wipe(bytes, sizeof(bytes));
    mem_wipe(line, sizeof(line));
    return r;
}

static int read_or_make(const struct config *config, struct apikey *k, struct err *e)
{
    AUTO_BUF(path, PATH_MAX);
    auto_fd dir = open(config->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (dir < 0)
        return err_sys(e, errno, "open '%s'", config->dir);
    r = buf_addf(&path, "%s/" APIKEY_FILE, config->dir);
    if (r < 0)
        return err_sys(e, -r, "'%s'", config->dir);
    k->path = buf_take(&path);
    k->source = APIKEY_STORED;
    r = read_key(dir, k, e);
    if (r != -ENOENT)
        return r;
    k->source = APIKEY_MADE;
    r = make_key(dir, k->path, e);
    return r < 0 ? r : read_key(dir, k, e);
}

/* --- choosing the keys --- */

static void add_key(struct apikey *k, const char *key)
{
    if (str_trim(str_of(key)).n > 0 && k->count < CONFIG_KEYS_MAX)
        k->keys[k->count++] = str_of(key);
}

int apikey_load(const struct config *config, struct apikey *ret, struct err *e)
{
    struct apikey k = {.source = APIKEY_CONFIGURED};
    int r = 0;

    add_key(&k, config->server.api_key);
    for (size_t i = 0; i < config->server.api_keys.count; i++)
        add_key(&k, config->server.api_keys.at[i]);
    if (k.count == 0) {
        k.source = APIKEY_NONE;
        r = config->insecure ? 0 : read_or_make(config, &k, e);
    }
    if (r < 0) {
        apikey_done(&k);
        return err_wrap(e, r, "API key");
    }
    *ret = k;
    return 0;
}

void apikey_done(struct apikey *keys)
{
    if (keys->stored)
        mem_wipe(keys->stored, strlen(keys->stored));
    free(keys->stored);
    free(keys->path);
    *keys = (struct apikey){0};
}

/* --- messages --- */

/* For a server on all addresses, the one that a client on this host can use. */
static int add_domain(struct buf *out, struct str address)
{
    static const struct str every[] = {STR_INIT("0.0.0.0:"), STR_INIT("[::]:")};

    for (size_t i = 0; i < ARRAY_LEN(every); i++)
        if (str_starts(address, every[i]))
            return buf_addf(out, "127.0.0.1:%.*s", STR_ARG(str_skip(address, every[i].n)));
    return buf_add(out, address);
}

static int describe_file(const struct apikey *k, struct str address, struct buf *out)
{
    int r =
        buf_addf(out,
                 "%s %s\nto use it:\n"
                 "  export OPEN_SANDBOX_API_KEY=\"$(cat '%s')\"\n"
                 "  export OPEN_SANDBOX_DOMAIN=",
                 k->source == APIKEY_MADE ? "an API key was made and is in" : "the API key is in",
                 k->path, k->path);

    if (r == 0)
        r = add_domain(out, address);
    return r ? r : buf_add_char(out, '\n');
}

int apikey_describe(const struct apikey *keys, const char *address, struct buf *out)
{
    switch (keys->source) {
    case APIKEY_CONFIGURED:
        return buf_addf(out, "%zu API key%s configured\n", keys->count,
                        keys->count == 1 ? " is" : "s are");
    case APIKEY_MADE:
    case APIKEY_STORED:
        return describe_file(keys, str_of(address), out);
    case APIKEY_NONE:
        break;
    }
    return buf_addf(out,
                    "no API key is required (OPENSANDBOX_INSECURE_SERVER): anyone who can reach %s "
                    "can run code here\n",
                    address);
}

void apikey_print(const struct apikey *keys, const char *address)
{
    AUTO_BUF(text, 4 * PATH_MAX);

    if (apikey_describe(keys, address, &text) == 0)
        (void)!io_write_full(STDERR_FILENO, buf_str(&text), DEADLINE_NEVER);
}
