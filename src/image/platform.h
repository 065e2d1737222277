/* platform.h - operating system and processor of an image, as "linux/arm64/v8". Pure, but for
 * image_platform_host. */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum { IMAGE_PLATFORM_WORD_MAX = 32, IMAGE_PLATFORM_TEXT_MAX = 3 * IMAGE_PLATFORM_WORD_MAX };

struct image_platform {
    char os[IMAGE_PLATFORM_WORD_MAX];      /* "linux" */
    char arch[IMAGE_PLATFORM_WORD_MAX];    /* in Go's words: "amd64", "arm64" */
    char variant[IMAGE_PLATFORM_WORD_MAX]; /* "v7"; "" = the processor's usual one */
};

/* "os/arch[/variant]" or "arch" alone (of linux); x86_64 and aarch64 are understood. -EINVAL. */
int image_platform_parse(struct str text, struct image_platform *ret, struct err *e);
void image_platform_host(struct image_platform *ret);
void image_platform_format(const struct image_platform *p, char out[IMAGE_PLATFORM_TEXT_MAX]);
/* How well `have` runs where `want` is wanted: 0 = not at all, else more is better. Older variants
 * of a processor run on newer ones. */
int image_platform_match(const struct image_platform *want, const struct image_platform *have);
