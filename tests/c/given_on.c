/* Connections that are given on as soon as they are accepted, to a program that was started before and
   uses them at once: it never finds one that is not connected. */
#include "trap.h"

enum { PORT_LISTEN = 5064, PORT_READY = 6064, COUNT = 200, THROUGH = 3 };

static void pass(int through, int fd) {
    char byte = 'f', room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
                             .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    MUST(sendmsg(through, &message, 0) == 1);
}

/* The program that gets them, after exec(2). */
static void takes_over(void) {
    int right = 0, wrong = 0;
    for (;;) {
        int fd;
        char byte, text[4], room[CMSG_SPACE(sizeof fd)] = {0};
        struct iovec part = {&byte, 1};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
                                 .msg_controllen = sizeof room};
        if (recvmsg(THROUGH, &message, 0) != 1) break;
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
        struct sockaddr_in name;
        socklen_t bytes = sizeof name;
        int is_connected = getpeername(fd, (struct sockaddr *)&name, &bytes) == 0;
        int has_come = recv(fd, text, 4, MSG_WAITALL) == 4;
        int is_told = send(fd, "done", 4, MSG_NOSIGNAL) == 4;
        if (is_connected && has_come && is_told) right++;
        else wrong++;
        close(fd);
        MUST(write(THROUGH, "n", 1) == 1);
    }
    say("%d right, %d wrong", right, wrong);
    _exit(0);
}

static void here(void) {
    if (getenv("TAKES_OVER") != NULL) takes_over();
    int ends[2], listener = listens(PORT_LISTEN);
    close(dials(address_there, PORT_READY));
    char byte;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        MUST(dup2(ends[1], THROUGH) == THROUGH);
        for (int fd = THROUGH + 1; fd < 32; fd++) close(fd);
        setenv("TAKES_OVER", "1", 1);
        execl(self, self, "here", address_here, address_there, NULL);
        _exit(1);
    }
    close(ends[1]);
    for (int i = 0; i < COUNT; i++) {
        int fd = accepts(listener);
        pass(ends[0], fd);
        close(fd);
        MUST(read(ends[0], &byte, 1) == 1);
    }
    shutdown(ends[0], SHUT_WR);
    ended("the program that gets them", child);
    close(listener);
}

static void there(void) {
    char text[4];
    int ready = listens(PORT_READY);
    close(accepts(ready));
    close(ready);
    for (int i = 0; i < COUNT; i++) {
        int fd = dials(address_here, PORT_LISTEN);
        put(fd, "word");
        recv(fd, text, 4, MSG_WAITALL);
        close(fd);
    }
}
