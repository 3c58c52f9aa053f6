/* codec.c - see codec.h: which family an encoding belongs to. */
#include "lance/codec.h"

void lk_scratch_deinit(lk_scratch *scratch)
{
    lk_buffer_give(&scratch->bytes);
    lk_buffer_give(&scratch->levels);
    lk_buffer_give(&scratch->block);
    lk_buffer_give(&scratch->words);
    lk_buffer_give(&scratch->plain);
    lk_zstd_deinit(&scratch->zstd);
}

static lk_rc choose(const lk_encoding *encoding, lk_arena *arena, lk_codec *out, lk_err *err)
{
    switch (encoding->kind) {
    case LK_ENCODING_FLAT:
        return lk_flat_codec(encoding, out, err);
    case LK_ENCODING_VARIABLE:
        return lk_variable_codec(encoding, out, err);
    case LK_ENCODING_INLINE_BITPACKING:
        return lk_inline_codec(encoding, out, err);
    case LK_ENCODING_FSST:
        return lk_fsst_codec(encoding, arena, out, err);
    case LK_ENCODING_RLE:
        return lk_run_codec(encoding, out, err);
    case LK_ENCODING_BYTE_STREAM_SPLIT:
        return lk_split_codec(encoding, out, err);
    case LK_ENCODING_GENERAL:
        return lk_general_codec(encoding, arena, out, err);
    case LK_ENCODING_FIXED_SIZE_LIST:
        return lk_fsl_codec(encoding, arena, out, err);
    case LK_ENCODING_NONE:
    case LK_ENCODING_CONSTANT:
    case LK_ENCODING_OUT_OF_LINE_BITPACKING:
    case LK_ENCODING_DICTIONARY:
    case LK_ENCODING_PACKED_STRUCT:
    case LK_ENCODING_VARIABLE_PACKED_STRUCT:
    default:
        break;
    }
    lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "encoding %d in a mini-block", (int)encoding->kind);
    lk_detail(err, "Lance encoding number %d inside a mini-block", (int)encoding->kind);
    return rc;
}

lk_rc lk_codec_new(const lk_encoding *encoding, lk_arena *arena, const lk_codec **out, lk_err *err)
{
    if (encoding->kind == LK_ENCODING_PACKED_STRUCT) { /* rows of bytes; their members are cut out later */
        return lk_packed_codec(encoding, arena, out, err);
    }
    lk_codec *codec = lk_arena_take(arena, sizeof *codec);
    *out = codec;
    return choose(encoding, arena, codec, err);
}

lk_rc lk_codec_check(const lk_codec *codec, const lk_column *column, lk_err *err)
{
    bool variable = column->offset_bytes > 0;
    if (codec->bits != (variable ? 0 : column->row_bits) ||
        codec->nulls != (column->type.layout == LK_LAYOUT_NULL)) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page of %u-bit values in a column of %u bits", codec->bits,
            column->row_bits);
    }
    return LK_OK;
}
