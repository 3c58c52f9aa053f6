/* rollout_fixture.c - see rollout_fixture.h. */
#include "serve/rollout_fixture.h"

#include "base/file.h"
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

lk_rollout_service        *fixture_service;
lk_rollouts               *fixture_stores;
char                       fixture_root[64];
lk_rollout_service_options fixture_options;
lk_rollout_options         fixture_store_options;

int fixture_open_service(void **state)
{
    lk_err err = {0};
    (void)snprintf(fixture_root, sizeof fixture_root, "%s/lake-service-XXXXXX", P_tmpdir);
    if (mkdtemp(fixture_root) == NULL) {
        return -1;
    }
    fixture_store_options.instance_id = LK_LITERAL("rollout-0");
    const lk_rollouts_options stores = {
        .data_dir = lk_bytes_of(fixture_root), .store = fixture_store_options, .durable = false};
    if (lk_rollouts_open(&stores, &fixture_stores, &err) != LK_OK) {
        return -1;
    }
    fixture_options.stores = fixture_stores;
    fixture_options.address = "127.0.0.1:0";
    fixture_options.instance_id = LK_LITERAL("rollout-0");
    fixture_options.instance_source = LK_LITERAL("--instance-id");
    lk_rc rc = lk_rollout_service_open(&fixture_service, &fixture_options, &err);
    fixture_options = (lk_rollout_service_options){0};
    fixture_store_options = (lk_rollout_options){0};
    return rc == LK_OK ? 0 : -1;
}

int fixture_close_service(void **state)
{
    lk_err err = {0};
    lk_rollout_service_close(fixture_service);
    lk_rollouts_close(fixture_stores);
    fixture_service = NULL;
    fixture_stores = NULL;
    return lk_directory_remove(fixture_root, &err) == LK_OK ? 0 : -1;
}

int fixture_dial(void)
{
    lk_address address;
    lk_err     err = {0};
    assert_int_equal(lk_address_parse(lk_rollout_service_address(fixture_service), &address, &err), LK_OK);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(address.port)};
    assert_int_equal(inet_pton(AF_INET, address.host, &to.sin_addr), 1);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static bool hear_some(int fd, lk_buf *heard)
{
    char          bytes[65536];
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    if (poll(&poller, 1, 20000) != 1) {
        fail_msg("no answer in twenty seconds");
    }
    ssize_t count = recv(fd, bytes, sizeof bytes, 0);
    if (count > 0) {
        lk_buf_append(heard, bytes, (size_t)count);
    }
    return count > 0;
}

/* The size that the head states; UINT64_MAX: in chunks. */
static uint64_t stated_size(const lk_buf *head)
{
    const char *length = strcasestr(head->data, "\r\ncontent-length:");
    return length == NULL ? UINT64_MAX : strtoull(length + 17, NULL, 10);
}

static void take_chunks(lk_buf *raw, lk_buf *body)
{
    size_t at = 0, size = 1;
    while (size > 0) {
        char *end;
        size = strtoull(raw->data + at, &end, 16);
        at = (size_t)(end - raw->data) + 2;
        assert_true(at + size + 2 <= raw->size);
        lk_buf_append(body, raw->data + at, size);
        at += size + 2;
    }
}

static bool is_whole(const lk_buf *raw, uint64_t size)
{
    return size == UINT64_MAX ? raw->size >= 5 && memcmp(raw->data + raw->size - 5, "0\r\n\r\n", 5) == 0
                              : raw->size >= size;
}

fixture_answer fixture_hear(int fd, bool to_head)
{
    fixture_answer a = {0};
    lk_buf         raw = {0};
    char          *end = NULL;
    while (end == NULL && hear_some(fd, &raw)) {
        end = strstr(raw.data, "\r\n\r\n");
    }
    if (end == NULL) {
        fail_msg("no whole head: %s", raw.data == NULL ? "nothing" : raw.data);
        return a;
    }
    size_t head_size = (size_t)(end - raw.data) + 4;
    lk_buf_append(&a.head, raw.data, head_size);
    memmove(raw.data, raw.data + head_size, raw.size - head_size + 1);
    raw.size -= head_size;
    a.status = (int)strtol(a.head.data + 9, NULL, 10);
    uint64_t size = a.status == 204 || a.status == 304 || to_head ? 0 : stated_size(&a.head);
    while (!is_whole(&raw, size) && hear_some(fd, &raw)) {}
    if (size == UINT64_MAX && is_whole(&raw, size)) {
        take_chunks(&raw, &a.body);
        lk_buf_deinit(&raw);
    } else {
        a.body = raw;
    }
    lk_buf_append(&a.body, "", 0);
    return a;
}

fixture_answer fixture_send(const char *method, const char *path, const char *fields, lk_bytes body)
{
    lk_buf text = {0};
    int    fd = fixture_dial();
    lk_buf_format(&text, "%s %s HTTP/1.1\r\nHost: lake\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n",
        method, path, body.size, fields);
    lk_buf_append_bytes(&text, body);
    for (size_t at = 0; at < text.size;) {
        ssize_t sent = send(fd, text.data + at, text.size - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            break; /* refused before the body was read */
        }
        at += (size_t)sent;
    }
    fixture_answer answer = fixture_hear(fd, strcmp(method, "HEAD") == 0);
    lk_buf_deinit(&text);
    close(fd);
    return answer;
}

fixture_answer fixture_get(const char *path)
{
    return fixture_send("GET", path, "", (lk_bytes){0});
}

fixture_answer fixture_post(const char *path, const char *json)
{
    return fixture_send("POST", path, "Content-Type: application/json\r\n", lk_bytes_of(json));
}

void fixture_answer_deinit(fixture_answer *answer)
{
    lk_buf_deinit(&answer->head);
    lk_buf_deinit(&answer->body);
}

void fixture_expect(fixture_answer answer, int status, const char *part)
{
    if (answer.status != status ||
        (part != NULL && (answer.body.data == NULL || strstr(answer.body.data, part) == NULL))) {
        fail_msg("expected %d with %s; heard %s%s", status, part, answer.head.data,
            answer.body.data == NULL ? "" : answer.body.data);
    }
    fixture_answer_deinit(&answer);
}
