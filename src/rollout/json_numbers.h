#ifndef LK_ROLLOUT_JSON_NUMBERS_H
#define LK_ROLLOUT_JSON_NUMBERS_H
/*
 * json_numbers.h - runs of numbers in a JSON array, eight digits at a time: what token lists and their logprobs are made of.
 *
 * Invariants:
 *   1. A run is of elements as machines write them: `[-]digits[.digits]`, at most eight digits before the point, a comma
 *      right behind. It ends before the first element that is anything else, also the last one of an array: whoever
 *      goes on there with the cursor's own calls finds what it would have found without the run.
 *   2. The values are what lk_json_take_integer and lk_json_take_float give.
 * Threads: stateless.
 */
#include "rollout/json_cursor.h"

/* The cursor is where an element begins. Takes up to `room` elements with their commas; how many. */
size_t lk_json_take_int32_run(lk_json_cursor *cursor, int32_t *out, size_t room);
size_t lk_json_take_float_run(lk_json_cursor *cursor, float *out, size_t room);

#endif
