/* SPDX-License-Identifier: Apache-2.0
 *
 * One message that hands a new region to an agent. Nobody listening is the usual case; the job must not notice.
 * A connection, not a datagram: it queues among the listener's 4,096 instead of 10, and outlives this process.
 */
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_DIRECTORY "/run/pillion"

struct announcement {
    uint64_t magic;
    uint32_t pid;
    uint32_t reserved;
};

bool pln_announce(int fd, uint32_t pid) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *directory = secure_getenv("PILLION_SOCKET");
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/rings.sock",
                          directory != NULL ? directory : SOCKET_DIRECTORY);
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        return false;
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return false;

    struct announcement announcement = {PLN_MAGIC, pid, 0};
    struct iovec payload = {&announcement, sizeof announcement};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {
        .msg_iov = &payload,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    if (fd < 0)
        message.msg_controllen = 0;
    bool told = connect(sock, (struct sockaddr *)&address, sizeof address) == 0 &&
                sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof announcement;
    close(sock);
    return told;
}
