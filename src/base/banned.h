/* banned.h - functions this project does not call, as compile errors that name the replacement.
 * meson.build includes this file on the command line of every translation unit. */
#pragma once

#ifndef __ASSEMBLER__
/* Include the system headers first, so that their declarations do not meet these macros. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BANNED(name, instead) name##_is_banned_use_##instead
#define strcpy(d, s)          BANNED(strcpy, buf_add)
#define strncpy(d, s, n)      BANNED(strncpy, str_copy)
#define strcat(d, s)          BANNED(strcat, buf_add)
#define strncat(d, s, n)      BANNED(strncat, buf_add)
#define sprintf(...)          BANNED(sprintf, snprintf)
#define vsprintf(...)         BANNED(vsprintf, vsnprintf)
#define strtok(s, d)          BANNED(strtok, str_cut)
#define strtok_r(s, d, p)     BANNED(strtok_r, str_cut)
#define atoi(s)               BANNED(atoi, str_to_i64)
#define atol(s)               BANNED(atol, str_to_i64)
#define atoll(s)              BANNED(atoll, str_to_i64)
#define gets(s)               BANNED(gets, fgets)
#define tmpnam(s)             BANNED(tmpnam, memfd_create)
#define mktemp(s)             BANNED(mktemp, mkostemp)
#endif
