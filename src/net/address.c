/* address.c - addresses are split by hand and judged by getaddrinfo in numeric mode. Threads: stateless. */
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_DEFAULT = 50051 };

static bool parse_port(const char *text, size_t size, uint16_t *port)
{
    unsigned long value = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || value > UINT16_MAX) {
            return false;
        }
        value = value * 10 + (unsigned long)(text[i] - '0');
    }
    *port = (uint16_t)value;
    return size > 0 && value <= UINT16_MAX;
}

/* Splits HOST[:PORT] or [V6][:PORT]; *has_port says whether a port was there. */
static bool split(
    const char *text, size_t size, char host[LK_ADDRESS_HOST_SIZE], uint16_t *port, bool *has_port)
{
    const char *end = text + size, *host_end, *after;
    if (size > 0 && text[0] == '[') {
        host_end = memchr(text, ']', size);
        text++;
        after = host_end == NULL ? NULL : host_end + 1;
    } else {
        host_end = memchr(text, ':', size);
        host_end = host_end == NULL ? end : host_end;
        after = host_end;
    }
    if (host_end == NULL || host_end == text || (size_t)(host_end - text) >= LK_ADDRESS_HOST_SIZE) {
        return false;
    }
    memcpy(host, text, (size_t)(host_end - text));
    host[host_end - text] = '\0';
    *has_port = after < end;
    return after == end || (*after == ':' && parse_port(after + 1, (size_t)(end - after - 1), port));
}

static struct addrinfo *resolve(const lk_address *address, uint16_t port)
{
    char port_text[8];
    (void)snprintf(port_text, sizeof port_text, "%u", (unsigned)port);
    struct addrinfo  hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    return getaddrinfo(address->host, port_text, &hints, &found) == 0 ? found : NULL;
}

static bool is_loopback(const struct addrinfo *found)
{
    if (found->ai_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)found->ai_addr;
        return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    }
    const struct sockaddr_in6 *v6 = (const void *)found->ai_addr;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static lk_rc refuse(const char *text, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_INVALID_CONFIG, "address %s", text);
    lk_detail(err, "an address is a numeric IP or localhost, and a port: 127.0.0.1:50051 or [::1]:50051");
    return rc;
}

lk_rc lk_address_parse(const char *text, lk_address *out, lk_err *err)
{
    bool has_port = false;
    *out = (lk_address){0};
    if (!split(text, strlen(text), out->host, &out->port, &has_port) || !has_port) {
        return refuse(text, err);
    }
    if (strcmp(out->host, "localhost") == 0) {
        (void)snprintf(out->host, sizeof out->host, "127.0.0.1");
    }
    struct addrinfo *found = resolve(out, out->port);
    if (found == NULL) {
        return refuse(text, err);
    }
    out->v6 = found->ai_family == AF_INET6;
    out->loopback = is_loopback(found);
    freeaddrinfo(found);
    return LK_OK;
}

void lk_address_format(const lk_address *address, uint16_t port, char out[LK_ADDRESS_TEXT_SIZE])
{
    (void)snprintf(
        out, LK_ADDRESS_TEXT_SIZE, address->v6 ? "[%.64s]:%u" : "%.64s:%u", address->host, (unsigned)port);
}

static lk_rc probe_failed(int reason, lk_err *err)
{
    char text[128];
    (void)strerror_r(reason, text, sizeof text);
    switch (reason) {
    case EADDRINUSE:
        return lk_fail(err, LK_E_ADDRESS_IN_USE, "bind: in use");
    case EADDRNOTAVAIL:
    case EACCES: {
        lk_rc rc = lk_fail(err, LK_E_INVALID_CONFIG, "bind: errno %d", reason);
        lk_detail(err,
            reason == EACCES ? "no permission to listen on this port" : "this machine has no such address");
        return rc;
    }
    default:
        return lk_fail(err, LK_E_IO, "bind: errno %d", reason);
    }
}

lk_rc lk_address_probe(const lk_address *address, lk_err *err)
{
    struct addrinfo *found = resolve(address, address->port);
    if (found == NULL) {
        return refuse(address->host, err);
    }
    int one = 1, reason = 0;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 1) != 0) {
        reason = errno;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    freeaddrinfo(found);
    return reason == 0 ? LK_OK : probe_failed(reason, err);
}

static bool scheme_tls(const char *scheme, size_t size, bool *tls)
{
    static const struct {
        const char *name;
        bool        tls;
    } schemes[] = {{"grpc", false}, {"grpc+tcp", false}, {"http", false}, {"grpc+tls", true}, {"grpcs", true},
        {"https", true}};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strlen(schemes[i].name) == size && memcmp(schemes[i].name, scheme, size) == 0) {
            *tls = schemes[i].tls;
            return true;
        }
    }
    return false;
}

lk_rc lk_endpoint_parse(
    const char *text, char host[LK_ADDRESS_HOST_SIZE], uint16_t *port, bool *tls, lk_err *err)
{
    const char *rest = strstr(text, "://");
    bool        has_port = false, known = true;
    *tls = false;
    if (rest != NULL) {
        known = scheme_tls(text, (size_t)(rest - text), tls);
        rest += 3;
    } else {
        rest = text;
    }
    size_t size = strlen(rest);
    size -= size > 0 && rest[size - 1] == '/' ? 1 : 0;
    *port = PORT_DEFAULT;
    if (!known || strchr(rest, '@') != NULL || !split(rest, size, host, port, &has_port) || *port == 0) {
        lk_rc rc = lk_fail(err, LK_E_INVALID_CONFIG, "endpoint %s", text);
        lk_detail(err, "an endpoint is grpc://HOST:PORT, or grpc+tls://HOST:PORT with TLS");
        return rc;
    }
    return LK_OK;
}
