/* Sockets that go to another process through a UNIX socket (SCM_RIGHTS): whoever has it uses it, and it
   ends when the last copy has. */
#include "trap.h"

enum { PORT_ECHO = 6004, PORT_END = 6104, PORT_LISTEN = 5004 };

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

static int taken(int through) {
    int fd;
    char byte, room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
                             .msg_controllen = sizeof room};
    MUST(recvmsg(through, &message, MSG_CMSG_CLOEXEC) == 1);
    MUST(CMSG_FIRSTHDR(&message) != NULL);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* The one who gets them: it was there before they were. */
static void other(int through) {
    int fd = taken(through), listener, call;
    say("close-on-exec %d", fcntl(fd, F_GETFD) & FD_CLOEXEC);
    struct sockaddr_in name = {0};
    socklen_t bytes = sizeof name;
    MUST(getpeername(fd, (struct sockaddr *)&name, &bytes) == 0);
    say("its peer has port %d", ntohs(name.sin_port));
    put(fd, "other");
    hears("other", fd, 5);
    listener = taken(through);
    MUST(write(through, "t", 1) == 1);
    call = accepts(listener);
    hears("other", call, 4);
    put(call, "answer");
    MUST(read(call, &name, 1) == 0);
    close(call);
    close(listener);
    close(fd);
    fd = taken(through);
    hears("other", fd, 5);
    _exit(0);
}

static void here(void) {
    int ends[2], fd, listener, last;
    char byte;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        other(ends[1]);
    }
    close(ends[1]);
    fd = dials(address_there, PORT_ECHO);
    put(fd, "first");
    hears("parent", fd, 5);
    pass(ends[0], fd);
    close(fd);
    listener = listens(PORT_LISTEN);
    pass(ends[0], listener);
    MUST(read(ends[0], &byte, 1) == 1);
    close(listener);
    /* On its way it is open, although nobody has it: the peer's word is still there for the taker. */
    last = dials(address_there, PORT_END);
    put(last, "passed");
    pass(ends[0], last);
    close(last);
    ended("other", child);
}

static void there(void) {
    pid_t echo = fork();
    char text[8] = {0};
    if (echo == 0) {
        echoes_to(PORT_ECHO, 1);
        _exit(0);
    }
    int listener = listens(PORT_END), call = dials(address_here, PORT_LISTEN);
    put(call, "call");
    MUST(recv(call, text, 6, MSG_WAITALL) == 6);
    close(call);
    call = accepts(listener);
    MUST(recv(call, text, 6, MSG_WAITALL) == 6);
    put(call, "hello");
    MUST(read(call, text, 1) == 0);
    MUST(waitpid(echo, NULL, 0) == echo);
}
