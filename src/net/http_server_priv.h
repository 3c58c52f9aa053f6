#ifndef LK_NET_HTTP_SERVER_PRIV_H
#define LK_NET_HTTP_SERVER_PRIV_H
/*
 * http_server_priv.h - what http_server.c (listener, loops, timers), http_connection.c (one connection's bytes) and
 * http_exchange.c (the handlers' side) share.
 *
 * A connection belongs to its loop. While a handler has the exchange, the two meet under `mutex`: the queue of what is to
 * be sent, whether the answer began and ended, and whether the peer is gone. The loop is woken through loop.ready.
 */
#include "net/http_server.h"

#include <openssl/ssl.h>
#include <stdatomic.h>

typedef enum http_state {
    HTTP_HANDSHAKE, /* TLS */
    HTTP_HEAD,      /* waiting for a request, or in its head */
    HTTP_BODY,
    HTTP_RUNNING, /* a handler has the exchange */
    HTTP_SENDING, /* the answer ended; its last bytes go out */
    HTTP_LINGER /* refused with input unread: what still comes is thrown away, so that the peer reads the answer */
} http_state;

typedef struct http_piece {
    struct http_piece *next;
    lk_bytes           bytes;
    size_t             sent;
    lk_buf             own;         /* what bytes are of, but for those that are lent */
    void (*release)(void *context); /* the last piece of a loan ends it */
    void *context;
} http_piece;

static inline bool lk_http_is_lent(const http_piece *piece)
{
    return piece->own.data == NULL;
}

typedef struct http_loop       http_loop;
typedef struct http_connection http_connection;

struct lk_http_exchange {
    http_connection *connection;
    lk_http_head     head;
    lk_arena         arena;
    lk_cancel        cancel;
    lk_buf           body;
    uint64_t         body_max, charged; /* charged: to the server's body_bytes */
    lk_http_chunks   chunks;
    void            *attachment;
    lk_buf           fields; /* of the answer */
    int              status;
    uint64_t         left; /* content still to come; UINT64_MAX: chunked */
    bool             bodiless, chunked, close_after, was_refused;
};

struct http_connection {
    http_loop       *loop;
    http_connection *previous, *next; /* of the loop's */
    int              fd;
    SSL             *ssl;
    http_state       state;
    lk_buf           input;
    size_t           input_at;
    uint32_t         events;    /* what epoll watches for */
    uint64_t         since_ms;  /* when this state began, or last moved */
    uint64_t         taking_ms; /* since when the peer is given taken_bytes; 0: nothing was queued */
    size_t           taken_bytes;
    bool             wants_write; /* TLS needs to write before it can read */
    bool             peer_done;   /* half-closed by the peer */
    lk_http_exchange exchange;

    lk_mutex         mutex;
    lk_cond          drained;                  /* the queue got shorter, or gone was set */
    http_piece      *first, *last;             /* guarded by mutex, as are the following */
    size_t           queued_bytes, lent_bytes; /* of our own pieces, and of those of loans */
    lk_http_go_on    go_on;                    /* runs when there is room; NULL: nobody waits so */
    lk_http_go_on    resume;                   /* has a worker's turn */
    void            *go_on_context;
    bool             began, ended, gone, waking;
    http_connection *next_ready; /* of loop->ready, guarded by loop->mutex */
};

struct http_loop {
    lk_http_server  *server;
    lk_thread        thread;
    int              epoll_fd, wake_fd;
    http_connection *connections;
    lk_mutex         mutex;
    http_connection *ready; /* connections whose handlers queued or ended something; guarded by mutex */
};

struct lk_http_server {
    lk_http_options options;
    char            address[96];
    int             listen_fd;
    bool            has_tls;
    lk_mutex        tls_mutex;
    SSL_CTX        *tls;              /* guarded by tls_mutex */
    lk_pool        *workers, *takers; /* of requests without a body, and with one */
    http_loop      *loops;
    size_t          loop_count;
    atomic_size_t   connections, running; /* running: exchanges that handlers have */
    atomic_ullong   body_bytes, queued_bytes;
    atomic_ullong   body_bytes_max, body_idle_ms, write_idle_ms; /* limits */
    atomic_bool     draining, stopping;
};

uint64_t lk_http_now_ms(void);

/* http_connection.c: called on the loop. Each may close and free the connection: then it returns false. */
http_connection *lk_http_connection_open(http_loop *loop, int fd);
/* Something can be read or written; woken: it was on the ready list. */
bool lk_http_connection_move(http_connection *c, uint32_t events, bool woken);
bool lk_http_connection_tick(http_connection *c, uint64_t now_ms);
void lk_http_connection_close(http_connection *c);

/* http_exchange.c. */
/* Queues a piece; the connection's mutex is held. */
void lk_http_queue(http_connection *c, http_piece *piece);
/* Whether no more than this part (one of 1, 2..) of what may wait does. Under the connection's mutex. */
static inline bool lk_http_has_room(const http_connection *c, size_t part)
{
    return c->queued_bytes <= LK_HTTP_QUEUE_BYTES / part && c->lent_bytes <= LK_HTTP_LENT_BYTES / part;
}
/* A piece that has *bytes, which it takes; NULL: there are none. */
http_piece *lk_http_piece_new(lk_buf *bytes);
/* Frees a list of pieces, whose loans end; no mutex is held. */
void lk_http_pieces_free(http_piece *first);
/* Asks the loop to look at the connection. A handler calls it with the connection's mutex held: the loop, which takes that
 * mutex before it believes that an exchange ended, can then not free the connection under it. */
void lk_http_wake(http_connection *c);
void lk_http_exchange_reset(lk_http_exchange *exchange);
/* An answer with the JSON error body of this server's own refusals; on the loop. why: a sentence. */
__attribute__((format(printf, 3, 4))) void lk_http_refuse(
    lk_http_exchange *exchange, int status, const char *why, ...);

#endif
