/* A library that sends. */
#include <sys/socket.h>

long says(int fd, const void *bytes, unsigned long count) {
    return send(fd, bytes, count, MSG_NOSIGNAL);
}
