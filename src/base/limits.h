#ifndef LK_BASE_LIMITS_H
#define LK_BASE_LIMITS_H
/* limits.h - every hard cap that is not a setting, unit in the name, reason above it. */

/* One namespace or table name must fit every header, key and path they travel in. */
#define LK_NAMESPACE_BYTES_MAX  128
#define LK_TABLE_NAME_BYTES_MAX 255

/* A DynamoDB item holds 400 KB; base64 of this schema still fits one beside the record. */
#define LK_SCHEMA_IPC_BYTES_MAX (256 * 1024)
#define LK_COLUMNS_MAX          10000
#define LK_SCHEMA_DEPTH_MAX     32

/* One append operation is one table version; more rows are split by the client or the ingest. */
#define LK_APPEND_ROWS_MAX          10000
#define LK_APPEND_COMMAND_BYTES_MAX (64 * 1024)

/* Defaults of the append settings (config.def), for a node that is built without settings. */
#define LK_APPEND_MAX_CONCURRENT   8
#define LK_APPEND_QUEUE_TIMEOUT_MS 5000
#define LK_APPEND_STREAM_BYTES_MAX (64 * 1024 * 1024)
#define LK_APPEND_RETENTION_SECS   604800

/* An operation id may be this far ahead of our clock. */
#define LK_OPERATION_SKEW_SECS 300

#define LK_LEASE_TTL_MS              10000
#define LK_LEASE_RENEW_MS            5000
#define LK_LEASE_CAMPAIGN_TIMEOUT_MS 4000
/* How often a follower looks whether the lease is free, and a node that failed or lost tries again. */
#define LK_LEASE_WATCH_MS 1000
#define LK_LEASE_RETRY_MS 200
_Static_assert(
    LK_LEASE_CAMPAIGN_TIMEOUT_MS * 2 < LK_LEASE_TTL_MS, "a campaign must end well inside its lease");
_Static_assert(LK_LEASE_RENEW_MS * 2 <= LK_LEASE_TTL_MS, "one renewal may be missed");

/* Paged listings. */
#define LK_PAGE_ITEMS_MAX         256
#define LK_CONTINUATION_BYTES_MAX 4096
#define LK_CATALOG_ENTRIES_MAX    100000

/* A statement may join this many tables; each is pinned in its ticket. */
#define LK_STATEMENT_TABLES_MAX     64
#define LK_SQL_IDENTIFIER_BYTES_MAX 256
#define LK_SQL_DEPTH_MAX            128
/* An IN list of 65,536 values fits; the parser needs about 20 us a token. */
#define LK_SQL_TOKENS_MAX 150000
/* Expressions other than literals, which have LK_SQL_TOKENS_MAX. */
#define LK_SQL_NODES_MAX 10000
/* repeat('x', n), range(n) and their kind outside FROM: larger results are not interruptible and not counted. The
 * sizes above LK_SQL_GROWTH_SMALL of one statement, multiplied, have a cap too: calls may be nested. */
#define LK_SQL_GROWTH_MAX         10000
#define LK_SQL_GROWTH_SMALL       1000
#define LK_SQL_GROWTH_PRODUCT_MAX 1000000
/* How often a running statement's cancel flag is looked at; a cancelled one must stop within 100 ms. */
#define LK_SQL_WATCH_MS 20

/* gRPC message sizes: requests, and DoPut, where clients send a whole data frame as one batch. */
#define LK_GRPC_MESSAGE_BYTES_MAX     (16 * 1024 * 1024)
#define LK_GRPC_PUT_MESSAGE_BYTES_MAX (256 * 1024 * 1024)

/* What all DoPut streams of a process hold in memory together. */
#define LK_PUT_BYTES_MAX (1024ULL * 1024 * 1024)

/* DoGet messages are coalesced to about this much before they go on the wire. */
#define LK_STREAM_BATCH_ROWS  65536
#define LK_STREAM_BATCH_BYTES (1024 * 1024)

/* A column's name, in UTF-8; any characters. */
#define LK_COLUMN_NAME_BYTES_MAX 256

/* One Arrow IPC message: a header holds 64 bytes a column at most plus the schema's text; a body without a
 * budget of its own is refused above this. Dictionary-encoded fields a schema. */
#define LK_IPC_HEADER_BYTES_MAX (4 * 1024 * 1024)
#define LK_IPC_FOOTER_BYTES_MAX (64 * 1024 * 1024) /* 24 bytes for each of its batches */
#define LK_IPC_BODY_BYTES_MAX   (2ULL * 1024 * 1024 * 1024)
#define LK_IPC_DICTIONARIES_MAX 1024

/* Each delta copies the dictionary that it extends, so their number bounds that work. */
#define LK_IPC_DELTAS_MAX 4096

/* Rows of one array from outside; columns without buffers (null type) make no bytes to bound it by. */
#define LK_ARRAY_LENGTH_MAX 2147483647LL

/* The catalog cache: from when a directory is refreshed behind its readers, from when an answer is stale,
 * how often an authority that failed is tried, how long and for how many names absence is remembered. */
#define LK_CATALOG_FRESH_MS   2500
#define LK_CATALOG_STALE_MS   5000
#define LK_CATALOG_RETRY_MS   1000
#define LK_CATALOG_ABSENT_MS  1000
#define LK_CATALOG_ABSENT_MAX 10000
_Static_assert(LK_CATALOG_FRESH_MS < LK_CATALOG_STALE_MS, "stale begins after fresh");

/* A directory is read in pages under one generation; it is given up after this many that moved meanwhile. */
#define LK_REGISTRY_PAGE_ITEMS 256
#define LK_DIRECTORY_ATTEMPTS  3

/* Create and drop of different tables meet in one namespace's counter; each retries this often. */
#define LK_NAMESPACE_RACE_ATTEMPTS 16

/* The leader looks for unfinished work on taking over and then this often, this many records at a time. */
#define LK_RECOVERY_INTERVAL_MS 60000
#define LK_RECOVERY_PAGE_ITEMS  128

/* Open datasets an engine keeps for the next append or reader, and their memory: manifests of large tables. */
#define LK_ENGINE_OPEN_MAX       512
#define LK_ENGINE_OPEN_BYTES_MAX (256 * 1024 * 1024)
/* Data files an engine keeps open, and their metadata (64 KiB each at most); fewer when the system allows fewer. */
#define LK_ENGINE_FILES_MAX 4096
/* Threads that sync the files of commits side by side (they only wait), and how many files may await one. */
#define LK_ENGINE_SYNC_THREADS 8
#define LK_ENGINE_SYNC_QUEUE   64

/* A pipe keeps a write of this size in one piece (PIPE_BUF), so lines of several threads do not mix. */
#define LK_LOG_LINE_BYTES_MAX 4096

/* A directory tree that we remove or list is never deeper, nor one directory fuller, than this. */
#define LK_DIRECTORY_DEPTH_MAX   64
#define LK_DIRECTORY_ENTRIES_MAX 1000000

/* A gRPC server: handlers that run at once (threads start as they are needed), calls that may wait for one,
 * streams of one connection, headers of one call, and how long a connection may take to set up. */
#define LK_GRPC_WORKERS              128
#define LK_GRPC_BACKLOG_MAX          512
#define LK_GRPC_STREAMS_MAX          128
#define LK_GRPC_HEADERS_BYTES_MAX    (16 * 1024)
#define LK_GRPC_HANDSHAKE_TIMEOUT_MS 10000

/* What the network may hold of messages that come in, over all connections; beyond it the library drops streams and
 * connections rather than grow. */
#define LK_GRPC_MEMORY_BYTES_MAX (512 * 1024 * 1024)
_Static_assert(
    LK_GRPC_MEMORY_BYTES_MAX >= 2 * LK_GRPC_PUT_MESSAGE_BYTES_MAX, "one large put must not stop another");

/* Pings on idle connections, so that dead peers and forgetful middle boxes are noticed. */
#define LK_GRPC_KEEPALIVE_MS         60000
#define LK_GRPC_KEEPALIVE_TIMEOUT_MS 20000

/* A client gives up a connection attempt after this, and tries again no sooner and no later than that. */
#define LK_GRPC_CONNECT_TIMEOUT_MS 5000
#define LK_GRPC_RECONNECT_MIN_MS   100
#define LK_GRPC_RECONNECT_MAX_MS   2000

/* How often a channel looks at its socket while no call waits on it: a refusal or a connection that came between
 * two calls is noticed no sooner, and must be long before the attempt is given up. */
#define LK_GRPC_IDLE_POLL_MS 100
_Static_assert(LK_GRPC_IDLE_POLL_MS * 10 <= LK_GRPC_CONNECT_TIMEOUT_MS, "a connection is noticed in time");

/* A blocked client call looks at its cancel flag this often. */
#define LK_GRPC_CANCEL_POLL_MS 50

/* A table's manifest, or one transaction: about two million fragments. */
#define LK_MANIFEST_BYTES_MAX (256 * 1024 * 1024)

/* Deleted rows of one fragment: 4 bytes a row at worst, and a fragment of 64 million rows is absurd. */
#define LK_DELETION_BYTES_MAX (256 * 1024 * 1024)

/* A tag or a branch is a few hundred bytes of JSON. */
#define LK_REF_BYTES_MAX (1024 * 1024)

/* An object that no version refers to may belong to a commit that is being made; after seven days it does not. */
#define LK_CLEANUP_UNVERIFIED_MS (7 * 24 * 3600 * 1000LL)

/* A tag is a file name, with room for ".json" and for a temporary's suffix. */
#define LK_TAG_NAME_BYTES_MAX 200

/* An append that stands alone tries this many versions before it gives up; waits double up to a cap. */
#define LK_COMMIT_ATTEMPTS_MAX   20
#define LK_COMMIT_BACKOFF_MS     10
#define LK_COMMIT_BACKOFF_MS_MAX 1000

/* What the tightest backend (a DynamoDB item of 400 KB, a sort key of 1 KB) still takes. */
#define LK_KV_KEY_BYTES_MAX   1024
#define LK_KV_VALUE_BYTES_MAX (400 * 1024 - LK_KV_KEY_BYTES_MAX)
_Static_assert(
    LK_SCHEMA_IPC_BYTES_MAX / 3 * 4 + 16 * 1024 < LK_KV_VALUE_BYTES_MAX, "a record with its schema fits");

/* A scan page ends early once its keys and values reach this; so memory does not depend on the limit. */
#define LK_KV_PAGE_BYTES_MAX (1024 * 1024)
#define LK_KV_PAGE_ITEMS_MAX 10000

/* After a failed write the store opens again only with this much free disk, so that it can. */
#define LK_KV_REOPEN_BYTES_MIN (16 * 1024 * 1024)
/* The first opening, which has less at stake: beside what its log takes again. */
#define LK_KV_OPEN_BYTES_MIN (64 * 1024)

/* Calls of one server to another. An append outlives a change of leader: lease, campaign, recovery. */
#define LK_AUTHORITY_CALL_TIMEOUT_MS   30000
#define LK_AUTHORITY_APPEND_TIMEOUT_MS 120000

/* A put whose client sends nothing for so long is cut; all of it may take no longer than the total. */
#define LK_PUT_IDLE_MS  30000
#define LK_PUT_TOTAL_MS 300000

/* After the drain deadline the rest of a process has this long to close before it is ended. */
#define LK_SHUTDOWN_MARGIN_MS 5000

/* An HTTP answer that is kept whole (a listing of 1,000 names of 1 KB, an error), and its headers. */
#define LK_HTTP_BODY_BYTES_MAX    (16 * 1024 * 1024)
#define LK_HTTP_HEADERS_BYTES_MAX (256 * 1024)

/* One request to object storage: how long to connect, how long no byte may move; tries, and the waits between them,
 * which double, each a random part of that. */
#define LK_S3_CONNECT_MS     5000
#define LK_S3_STALL_MS       15000
#define LK_S3_TRIES_MAX      8
#define LK_S3_BACKOFF_MS     50
#define LK_S3_BACKOFF_MS_MAX 4000
/* Requests of one call at once: what hides a latency of 30 ms without asking a server to slow us down. */
#define LK_S3_REQUESTS_AT_ONCE 16
/* An opened object's last bytes come with its size; how many of them a store remembers: 16 MiB. */
#define LK_S3_TAIL_BYTES (64 * 1024)
#define LK_S3_TAILS_MAX  256
/* Ranges nearer than this are one request (at 30 ms and 100 MB/s a request costs as much as 3 MB); one request reads
 * no more than that, so that large reads run side by side. */
#define LK_S3_RANGE_GAP_BYTES (256 * 1024)
#define LK_S3_RANGE_BYTES_MAX (8 * 1024 * 1024)
/* Parts of a large object (S3 allows 10,000 of at least 5 MiB): a writer holds PARTS_AT_ONCE of them. */
#define LK_S3_PART_BYTES    (8 * 1024 * 1024)
#define LK_S3_PARTS_AT_ONCE 4
#define LK_S3_PARTS_MAX     10000
/* Names of one request to list (S3 answers no more), and keys of one to remove. */
#define LK_S3_LIST_MAX   1000
#define LK_S3_DELETE_MAX 1000
/* A key is at most this long, in UTF-8. */
#define LK_S3_KEY_BYTES_MAX 1024

/* Reading a user's Parquet, CSV or NDJSON file: memory, threads, and the largest JSON object (each thread holds
 * two of them). */
#define LK_FILE_SOURCE_MEMORY_BYTES   (512ULL * 1024 * 1024)
#define LK_FILE_SOURCE_THREADS_MAX    4
#define LK_FILE_SOURCE_JSON_BYTES_MAX (16 * 1024 * 1024)

#endif
