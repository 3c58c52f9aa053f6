/* lance_frame.c - see lance_frame.h. */
#include "cli/lance_frame.h"

#include "cli/report.h"

bool lk_lance_frame_begin(lk_lance_frame *frame, const lk_arg *args, size_t count, int argc, char **argv)
{
    lk_arg       all[LK_LANCE_FRAME_ARGS_MAX + 2];
    const lk_arg uri = {
        "URI", LK_ARG_OPERAND, &frame->uri, NULL, "directory of the dataset, or s3://BUCKET/PREFIX", false};
    const lk_arg json = {"--json", LK_ARG_FLAG, &frame->json, NULL,
        frame->json_help == NULL ? "one JSON object" : frame->json_help, false};
    LK_ASSERT(count <= LK_LANCE_FRAME_ARGS_MAX);
    all[0] = uri;
    for (size_t i = 0; i < count; i++) {
        all[i + 1] = args[i];
    }
    all[count + 1] = json;
    frame->lance.config = frame->cli->config;
    return lk_cli_parse(frame->cli, frame->command, all, count + 2, argc, argv, &frame->code);
}

lk_rc lk_lance_frame_open(lk_lance_frame *frame, uint64_t version)
{
    return lk_cli_lance_open(&frame->lance, frame->uri, version, &frame->err);
}

int lk_lance_frame_end(lk_lance_frame *frame, lk_rc rc)
{
    lk_dataset_unref(frame->next);
    lk_cli_lance_close(&frame->lance);
    return rc == LK_OK ? 0 : lk_cli_fail(&frame->err);
}

int lk_lance_frame_end_with_version(lk_lance_frame *frame, lk_rc rc, const char *what)
{
    if (rc == LK_OK) {
        lk_report_version(frame->json, what, frame->next);
    }
    return lk_lance_frame_end(frame, rc);
}
