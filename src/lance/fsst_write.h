#ifndef LK_LANCE_FSST_WRITE_H
#define LK_LANCE_FSST_WRITE_H
/*
 * fsst_write.h - makes FSST symbol tables from samples of text and codes values with them (compress.h decodes). The
 * method is the one of "FSST: Fast Random Access String Compression" (Boncz, Neumann, Leis, 2020): a table is grown in
 * a few rounds, each of which counts how often the symbols of the last and their neighbours occur in the sample.
 *
 * Invariant: any bytes can be coded with any table, at two bytes a byte in the worst case. Threads: confined while it
 * is trained, immutable afterwards.
 */
#include "base/bytes.h"

enum { LK_FSST_TABLE_BYTES = 8 + 256 * 8 + 256 };

typedef struct lk_fsst_encoder lk_fsst_encoder;

lk_fsst_encoder *lk_fsst_encoder_new(void);
void             lk_fsst_encoder_free(lk_fsst_encoder *encoder); /* accepts NULL */

/* Replaces the table by one for texts like `count` pieces of the sample; piece i ends at ends[i]. */
void lk_fsst_train(lk_fsst_encoder *encoder, lk_bytes sample, const uint32_t *ends, size_t count);

/* Codes one value; 8 bytes behind it must be readable, out has room for two bytes a byte. Returns what was used. */
size_t lk_fsst_encode(const lk_fsst_encoder *encoder, const uint8_t *value, size_t size, uint8_t *out);

void lk_fsst_put_table(
    const lk_fsst_encoder *encoder, lk_buf *out); /* LK_FSST_TABLE_BYTES, as files have it */

#endif
