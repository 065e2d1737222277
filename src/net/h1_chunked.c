#include "net/h1_chunked.h"

#include "net/http_bytes.h"

/*  SIZE --CR--> SIZE_LF --> DATA --> DATA_CR --> DATA_LF --> SIZE ...
 *    |  `--blank--> BLANK --;--> EXTENSION --CR--> SIZE_LF
 *    `--;--> EXTENSION
 *  SIZE_LF of a chunk of no bytes --> TRAILER --CR--> LAST_LF --> ENDED
 *    TRAILER --name--> TRAILER_NAME --:--> TRAILER_VALUE --CR--> TRAILER_LF --> TRAILER */
enum state {
    SIZE,
    BLANK, /* white space after a size: only an extension may follow */
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER, /* at the start of a line */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF,
    ENDED,
};

enum { SIZE_DIGITS_MAX = 16 };

bool h1_chunked_ended(const struct h1_chunked *c)
{
    return c->state == ENDED;
}

static enum h1_error go(struct h1_chunked *c, enum state next)
{
    c->state = (uint8_t)next;
    return H1_OK;
}

static enum h1_error step_size(struct h1_chunked *c, char b)
{
    int digit = ascii_hex_value(b);

    if (digit >= 0) {
        if (c->digits++ == SIZE_DIGITS_MAX)
            return H1_BAD_CHUNK_SIZE;
        c->left = c->left << 4 | (uint64_t)digit;
        return H1_OK;
    }
    if (c->digits == 0)
        return H1_BAD_CHUNK_SIZE;
    if (c->left > INT64_MAX)
        return H1_CHUNK_TOO_LARGE;
    switch (b) {
    case '\r':
        return go(c, SIZE_LF);
    case ';':
        return go(c, EXTENSION);
    case ' ':
    case '\t':
        return go(c, BLANK);
    default:
        return H1_BAD_CHUNK_SIZE;
    }
}

static enum h1_error step_extension(struct h1_chunked *c, char b)
{
    if (b == '\r' && c->state == EXTENSION)
        return go(c, SIZE_LF);
    if (!http_byte_is(b, HTTP_BYTE_VALUE))
        return H1_BAD_CHUNK_LINE;
    if (c->extension_bytes++ == H1_EXTENSION_BYTES_MAX)
        return H1_EXTENSIONS_TOO_LARGE;
    if (c->state == EXTENSION || b == ' ' || b == '\t')
        return H1_OK;
    return b == ';' ? go(c, EXTENSION) : H1_BAD_CHUNK_LINE;
}

static enum h1_error step_trailer(struct h1_chunked *c, char b)
{
    if (c->trailer_bytes++ == H1_TRAILER_BYTES_MAX)
        return H1_TRAILERS_TOO_LARGE;
    switch (c->state) {
    case TRAILER:
        if (b == '\r')
            return go(c, LAST_LF);
        return http_byte_is(b, HTTP_BYTE_TOKEN) ? go(c, TRAILER_NAME) : H1_BAD_TRAILER;
    case TRAILER_NAME:
        if (b == ':')
            return go(c, TRAILER_VALUE);
        return http_byte_is(b, HTTP_BYTE_TOKEN) ? H1_OK : H1_BAD_TRAILER;
    case TRAILER_VALUE:
        if (b == '\r')
            return go(c, TRAILER_LF);
        return http_byte_is(b, HTTP_BYTE_VALUE) ? H1_OK : H1_BAD_TRAILER;
    case TRAILER_LF:
        return b == '\n' ? go(c, TRAILER) : H1_BAD_TRAILER;
    default:
        return b == '\n' ? go(c, ENDED) : H1_BAD_TRAILER;
    }
}

/* Handles one byte that is not data. */
static enum h1_error step(struct h1_chunked *c, char b)
{
    switch ((enum state)c->state) {
    case SIZE:
        return step_size(c, b);
    case BLANK:
    case EXTENSION:
        return step_extension(c, b);
    case SIZE_LF:
        c->digits = 0;
        return b == '\n' ? go(c, c->left ? DATA : TRAILER) : H1_BAD_CHUNK_LINE;
    case DATA_CR:
        return b == '\r' ? go(c, DATA_LF) : H1_BAD_CHUNK_END;
    case DATA_LF:
        return b == '\n' ? go(c, SIZE) : H1_BAD_CHUNK_END;
    default:
        return step_trailer(c, b);
    }
}

enum h1_error h1_chunked_next(struct h1_chunked *c, struct str in, struct str *ret_data,
                              size_t *ret_consumed)
{
    size_t at = 0, n;
    enum h1_error e;

    while (at < in.n && c->state != DATA && c->state != ENDED) {
        e = step(c, in.p[at]);
        if (e)
            return e;
        at++;
    }
    n = c->state == DATA && c->left < in.n - at ? (size_t)c->left : in.n - at;
    if (c->state != DATA)
        n = 0;
    *ret_data = str_make(in.p + at, n);
    *ret_consumed = at + n;
    c->left -= n;
    if (n && c->left == 0)
        c->state = DATA_CR;
    return n || c->state == ENDED ? H1_OK : H1_AGAIN;
}

size_t h1_chunk_header(char out[static H1_CHUNK_HEADER_MAX], size_t n)
{
    size_t digits;

    assert(n > 0);
    digits = (size_t)(64 - __builtin_clzll(n) + 3) / 4;
    for (size_t i = digits; i-- > 0; n >>= 4)
        out[i] = "0123456789abcdef"[n & 15];
    out[digits] = '\r';
    out[digits + 1] = '\n';
    return digits + 2;
}
