/* sha_internal.h - what the ways to compute SHA-256 share. */
#pragma once

#include "base/sha.h"

extern const uint32_t sha256_k[64];

/* Whether this processor has the instructions that sha256_x86_blocks uses. */
bool sha256_x86_present(void);
void sha256_x86_blocks(uint32_t state[8], const uint8_t *p, size_t count);
