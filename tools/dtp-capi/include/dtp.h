/* DTP for C programs: the calls of sockets on flows that outlive their network.
 *
 * A DTP descriptor is one end of a pair of local sockets, with threads behind the other end: select, poll, epoll, fcntl, dup, read, write and
 * sendfile take it beside any other descriptor. The dtp_ calls tell more: they name the error of a flow that broke (the system's see the end of
 * the stream or EPIPE), raise no SIGPIPE (but for sendfile), and dtp_close waits until the peer has what was written. All calls give -1 and errno on failure, and
 * any thread may make them. Threads do not survive fork: a child must not use its parent's descriptors. See dtp(3). */
#ifndef HEDDLE_DTP_H
#define HEDDLE_DTP_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The level of the options below. Keys are 32 octets or 64 hexadecimal digits; those of before the connection give EISCONN after it. */
#define DTP_LEVEL 0x445450
/* The server's public key; a client needs it or DTP_PSK. */
#define DTP_SERVER_KEY 1
/* A key that both ends share; set only. */
#define DTP_PSK 2
/* This end's private key; set only. A server needs it or DTP_PSK. */
#define DTP_PRIVATE_KEY 3
/* Server: lets in the client of this public key, and no unknown ones any more; may be set again and again. */
#define DTP_AUTHORIZED_KEY 4
/* uint32_t, seconds of silence that are borne; once connected, what was granted. */
#define DTP_KEEP_ALIVE 5
/* uint64_t, milliseconds from connect or accept until the flow is given up with ETIMEDOUT, whatever it does; 0 for never. */
#define DTP_DEADLINE 6
/* uint32_t, octets: writable while about as many at most wait to enter the flow. */
#define DTP_LOW_WATER 7
/* uint32_t, milliseconds: for how long dtp_close of a blocking descriptor waits for the peer to have everything. */
#define DTP_LINGER 8
/* Read only: two uint32_t, the flow's place and the count of flows in it. */
#define DTP_FLOW_ID 9
/* Read only: int, whether the flow waits for the network. */
#define DTP_SUSPENDED 10
/* Read only: 32 octets, the public key of DTP_PRIVATE_KEY. */
#define DTP_PUBLIC_KEY 11
/* Read only: uint64_t, octets written that the peer has. */
#define DTP_ACKNOWLEDGED 12

/* AF_INET or AF_INET6; SOCK_STREAM, with SOCK_NONBLOCK and SOCK_CLOEXEC; 0. */
int dtp_socket(int domain, int type, int protocol);
/* For servers; a client's address is the system's choice (dtp_connect after it: EOPNOTSUPP). In use: seen by dtp_listen. */
int dtp_bind(int fd, const struct sockaddr *address, socklen_t length);
/* ENOKEY without a key; ETIMEDOUT when nobody answers or the server has another key. A non-blocking descriptor gets EINPROGRESS, becomes
 * writable, and SO_ERROR of dtp_getsockopt says how it went. */
int dtp_connect(int fd, const struct sockaddr *address, socklen_t length);
/* The descriptor becomes readable when a flow waits. ENOKEY without a key. */
int dtp_listen(int fd, int backlog);
int dtp_accept(int fd, struct sockaddr *address, socklen_t *length);
ssize_t dtp_read(int fd, void *to, size_t octets);
ssize_t dtp_recv(int fd, void *to, size_t octets, int flags);
ssize_t dtp_write(int fd, const void *from, size_t octets);
ssize_t dtp_send(int fd, const void *from, size_t octets, int flags);
ssize_t dtp_sendfile(int to, int from, off_t *offset, size_t octets);
int dtp_close(int fd);
int dtp_shutdown(int fd, int how);
int dtp_select(int count, fd_set *read, fd_set *write, fd_set *except, struct timeval *timeout);
int dtp_poll(struct pollfd *polled, nfds_t count, int timeout_ms);
/* F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL and F_DUPFD_CLOEXEC; an argument of 0 where there is none. */
int dtp_fcntl(int fd, int command, long argument);
/* FIONREAD and FIONBIO, with an int. */
int dtp_ioctl(int fd, unsigned long request, void *argument);
/* Options that mean nothing here: ENOPROTOOPT. SOL_SOCKET has SO_RCVTIMEO, SO_SNDTIMEO, and to read SO_ERROR, SO_TYPE, SO_ACCEPTCONN. */
int dtp_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
int dtp_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int dtp_getsockname(int fd, struct sockaddr *address, socklen_t *length);
/* Where the peer is now: it may move. */
int dtp_getpeername(int fd, struct sockaddr *address, socklen_t *length);

#ifdef __cplusplus
}
#endif
#endif
