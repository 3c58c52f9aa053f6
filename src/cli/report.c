/* report.c - see report.h. */
#include "cli/report.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>

void lk_report(bool json, const char *sentence, const lk_report_number *numbers, size_t count)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    if (!json) {
        puts(sentence);
        return;
    }
    lk_json_object(&w);
    for (size_t i = 0; i < count; i++) {
        lk_json_key(&w, numbers[i].key);
        lk_json_u64(&w, numbers[i].value);
    }
    lk_json_object_end(&w);
    printf("%.*s\n", LK_FMT(lk_buf_view(&text)));
    lk_buf_deinit(&text);
}

void lk_report_version(bool json, const char *what, const lk_dataset *dataset)
{
    const lk_report_number number = {"version", lk_dataset_version(dataset)};
    lk_buf                 sentence = {0};
    lk_buf_format(&sentence, "%s: version %" PRIu64, what, number.value);
    lk_report(json, sentence.data, &number, 1);
    lk_buf_deinit(&sentence);
}
