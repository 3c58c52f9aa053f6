#ifndef LK_SERVE_ROLLOUT_FIXTURE_H
#define LK_SERVE_ROLLOUT_FIXTURE_H
/* rollout_fixture.h - for this room's tests only: a rollout service over a directory of its own, and a client of raw bytes. */
#include "rollout/stores.h"
#include "serve/rollout_service.h"

typedef struct fixture_answer {
    int    status;
    lk_buf head, body; /* head with its status line */
} fixture_answer;

extern lk_rollout_service *fixture_service;
extern lk_rollouts        *fixture_stores;
extern char                fixture_root[64];

/* Options of the next fixture_open_service; reset by it. */
extern lk_rollout_service_options fixture_options;
extern lk_rollout_options         fixture_store_options;

int fixture_open_service(void **state);
int fixture_close_service(void **state);

int fixture_dial(void);

/* One request on a connection of its own. fields: "Name: value\r\n..." or "". body: may be of any bytes. */
fixture_answer fixture_send(const char *method, const char *path, const char *fields, lk_bytes body);
fixture_answer fixture_get(const char *path);
fixture_answer fixture_post(const char *path, const char *json);
void           fixture_answer_deinit(fixture_answer *answer);

/* Reads an answer to its end from a connection; the connection stays. */
fixture_answer fixture_hear(int fd, bool to_head);

/* Sends, and fails unless status and (when not NULL) a part of the body are these. */
void fixture_expect(fixture_answer answer, int status, const char *part);

#endif
