/* sparse.h - sparse files of an archive, for layer.c: their maps say where the content belongs.
 *
 * GNU tar has written four forms: three as records of extended headers ("0.0": an offset and a
 * length per record; "0.1": a list in one; "1.0": a list at the begin of the content), and one in
 * blocks, which the tar reader hands on as "0.1". */
#pragma once

#include "unpack/layer.h"

int sparse_record(struct layer_reader *r, struct str key, struct str value, struct err *e);
/* The entry begins: checks a map that is complete. */
int sparse_begin(struct layer_reader *r, struct err *e);
int sparse_data(struct layer_reader *r, struct str piece, struct err *e);
int sparse_end(struct layer_reader *r, struct err *e);
