/* s3.c - see s3.h. */
#include "io/s3.h"

lk_rc lk_s3_store_open(lk_store **out, lk_bytes uri, const lk_s3_options *options, lk_err *err)
{
    (void)out;
    (void)options;
    return lk_fail(err, LK_E_UNIMPLEMENTED, "%.*s", LK_FMT(uri));
}
