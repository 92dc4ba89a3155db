/* A server and a client on the loopback: `loopback server` echoes one flow, `loopback client PORT KEY FILE` tries everything. */
#define _GNU_SOURCE
#include <dtp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(condition)                                                                      \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, strerror(errno));     \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

enum { OCTETS = 3000000 };

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static unsigned char octet(size_t place) { return (unsigned char)(place * 31 + (place >> 8) * 7); }

static int serve(void) {
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    unsigned char private_key[32], public_key[32];
    memset(private_key, 7, sizeof private_key);
    int listener = dtp_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0);
    CHECK(dtp_listen(listener, 8) == -1 && errno == EDESTADDRREQ);
    CHECK(dtp_bind(listener, (struct sockaddr *)&address, length) == 0);
    CHECK(dtp_listen(listener, 8) == -1 && errno == ENOKEY);
    CHECK(dtp_setsockopt(listener, DTP_LEVEL, DTP_PRIVATE_KEY, private_key, 32) == 0);
    length = sizeof public_key;
    CHECK(dtp_getsockopt(listener, DTP_LEVEL, DTP_PUBLIC_KEY, public_key, &length) == 0);
    CHECK(dtp_listen(listener, 8) == 0);
    length = sizeof address;
    CHECK(dtp_getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    printf("%d ", ntohs(address.sin_port));
    for (int i = 0; i < 32; i++) printf("%02x", public_key[i]);
    printf("\n");
    fflush(stdout);
    for (int flow = 0; flow < 2; flow++) {
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(listener, &readable);
        CHECK(dtp_select(listener + 1, &readable, NULL, NULL, NULL) == 1);
        length = sizeof address;
        int fd = dtp_accept(listener, (struct sockaddr *)&address, &length);
        CHECK(fd >= 0 && address.sin_family == AF_INET);
        char buffer[20000];
        ssize_t count;
        /* Beside dtp_read the system's own calls do. */
        while ((count = flow == 0 ? dtp_read(fd, buffer, sizeof buffer) : read(fd, buffer, sizeof buffer)) > 0)
            for (ssize_t done = 0, part; done < count; done += part)
                CHECK((part = dtp_write(fd, buffer + done, count - done)) > 0);
        CHECK(count == 0);
        CHECK(dtp_close(fd) == 0);
    }
    CHECK(dtp_close(listener) == 0);
    return 0;
}

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    CHECK(dtp_getsockopt(fd, level, name, &value, &length) == 0);
    return value;
}

/* The octets that are sent come back; then the end. */
static void read_echo(int fd, size_t *got) {
    unsigned char buffer[30000];
    ssize_t count = dtp_recv(fd, buffer, sizeof buffer, 0);
    CHECK(count > 0 || (count == -1 && errno == EAGAIN));
    for (ssize_t i = 0; i < count; i++) CHECK(buffer[i] == octet((*got)++));
}

static void errors(const char *key) {
    struct sockaddr_in address = loopback(9);
    struct sockaddr *any = (struct sockaddr *)&address;
    int number = 0;
    CHECK(dtp_socket(AF_UNIX, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
    CHECK(dtp_socket(AF_INET, SOCK_DGRAM, 0) == -1 && errno == ESOCKTNOSUPPORT);
    CHECK(dtp_read(-1, &number, 1) == -1 && errno == EBADF);
    CHECK(dtp_read(1, &number, 1) == -1 && errno == ENOTSOCK);
    int fd = dtp_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(dtp_connect(fd, NULL, 0) == -1 && errno == EFAULT);
    CHECK(dtp_connect(fd, any, 3) == -1 && errno == EINVAL);
    CHECK(dtp_connect(fd, any, sizeof address) == -1 && errno == ENOKEY);
    CHECK(dtp_write(fd, "x", 1) == -1 && errno == ENOTCONN);
    CHECK(dtp_accept(fd, NULL, NULL) == -1 && errno == EINVAL);
    CHECK(dtp_setsockopt(fd, DTP_LEVEL, DTP_SERVER_KEY, "abc", 3) == -1 && errno == EINVAL);
    CHECK(dtp_setsockopt(fd, DTP_LEVEL, DTP_SERVER_KEY, NULL, 32) == -1 && errno == EFAULT);
    CHECK(dtp_setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &number, sizeof number) == -1 && errno == ENOPROTOOPT);
    CHECK(dtp_setsockopt(fd, DTP_LEVEL, DTP_FLOW_ID, &number, sizeof number) == -1 && errno == ENOPROTOOPT);
    /* Nobody is there: the deadline ends it. */
    uint64_t deadline_ms = 300;
    CHECK(dtp_setsockopt(fd, DTP_LEVEL, DTP_SERVER_KEY, key, 64) == 0);
    CHECK(dtp_setsockopt(fd, DTP_LEVEL, DTP_DEADLINE, &deadline_ms, sizeof deadline_ms) == 0);
    CHECK(dtp_connect(fd, any, sizeof address) == -1 && errno == ETIMEDOUT);
    CHECK(dtp_close(fd) == 0);
    CHECK(dtp_close(fd) == -1 && errno == EBADF);
}

/* A server of another key than the one that is asked for lets nobody believe it. */
static void wrong_key(int port) {
    struct sockaddr_in address = loopback(port);
    unsigned char key[32] = {9};
    uint64_t deadline_ms = 1500;
    int fd = dtp_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(dtp_setsockopt(fd, DTP_LEVEL, DTP_SERVER_KEY, key, 32) == 0);
    CHECK(dtp_setsockopt(fd, DTP_LEVEL, DTP_DEADLINE, &deadline_ms, sizeof deadline_ms) == 0);
    CHECK(dtp_connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == EINPROGRESS);
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    CHECK(dtp_poll(&polled, 1, 60000) == 1);
    CHECK(option(fd, SOL_SOCKET, SO_ERROR) != 0);
    CHECK(dtp_close(fd) == 0);
}

static void echo(int port, const char *key) {
    struct sockaddr_in address = loopback(port), peer;
    socklen_t length = sizeof peer;
    int fd = dtp_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(dtp_fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(dtp_setsockopt(fd, DTP_LEVEL, DTP_SERVER_KEY, key, 64) == 0);
    struct pollfd polled = {.fd = fd, .events = POLLIN | POLLOUT};
    CHECK(dtp_poll(&polled, 1, 0) == 0);
    CHECK(dtp_connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == EINPROGRESS);
    CHECK(dtp_poll(&polled, 1, 60000) == 1 && polled.revents == POLLOUT);
    CHECK(option(fd, SOL_SOCKET, SO_ERROR) == 0);
    CHECK(dtp_connect(fd, (struct sockaddr *)&address, sizeof address) == -1 && errno == EISCONN);
    CHECK(dtp_getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && peer.sin_port == address.sin_port);
    CHECK(option(fd, DTP_LEVEL, DTP_KEEP_ALIVE) > 0);
    CHECK(option(fd, DTP_LEVEL, DTP_SUSPENDED) == 0);
    unsigned char buffer[10000];
    CHECK(dtp_read(fd, buffer, 1) == -1 && errno == EAGAIN);
    size_t sent = 0, got = 0;
    while (got < OCTETS) {
        polled.events = POLLIN | (sent < OCTETS ? POLLOUT : 0);
        CHECK(dtp_poll(&polled, 1, 60000) == 1);
        if (polled.revents & POLLOUT && sent < OCTETS) {
            size_t part = OCTETS - sent < sizeof buffer ? OCTETS - sent : sizeof buffer;
            for (size_t i = 0; i < part; i++) buffer[i] = octet(sent + i);
            ssize_t count = dtp_write(fd, buffer, part);
            CHECK(count > 0 || (count == -1 && errno == EAGAIN));
            if (count > 0 && (sent += count) == OCTETS) CHECK(dtp_shutdown(fd, SHUT_WR) == 0);
        }
        if (polled.revents & POLLIN) read_echo(fd, &got);
    }
    polled.events = POLLIN;
    CHECK(dtp_poll(&polled, 1, 60000) == 1);
    CHECK(dtp_read(fd, buffer, 1) == 0);
    CHECK(dtp_write(fd, "x", 1) == -1 && errno == EPIPE);
    CHECK(dtp_close(fd) == 0);
}

static void send_file(int port, const char *key, const char *path) {
    struct sockaddr_in address = loopback(port);
    int file = open(path, O_RDONLY), fd = dtp_socket(AF_INET, SOCK_STREAM, 0);
    struct stat status;
    CHECK(file >= 0 && fstat(file, &status) == 0);
    CHECK(dtp_setsockopt(fd, DTP_LEVEL, DTP_SERVER_KEY, key, 64) == 0);
    CHECK(dtp_connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    off_t offset = 0;
    while (offset < status.st_size) CHECK(dtp_sendfile(fd, file, &offset, status.st_size - offset) > 0);
    CHECK(dtp_shutdown(fd, SHUT_WR) == 0);
    unsigned char back[4096], wanted[4096];
    ssize_t count;
    off_t got = 0;
    for (; (count = read(fd, back, sizeof back)) > 0; got += count)
        CHECK(pread(file, wanted, count, got) == count && memcmp(back, wanted, count) == 0);
    CHECK(count == 0 && got == status.st_size);
    CHECK(dtp_close(fd) == 0);
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "server") == 0) return serve();
    CHECK(count == 5);
    int port = atoi(arguments[2]);
    errors(arguments[3]);
    wrong_key(port);
    echo(port, arguments[3]);
    send_file(port, arguments[3], arguments[4]);
    printf("all well\n");
    return 0;
}
