/* A number that another thread gives to another file while a call waits on it: the call was made of the
   old file, and must leave the new one alone. */
#include "trap.h"
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PORT_SILENT = 6021, PORT_STUCK = 6022, PORT_UDP = 6023, PORT_LATE = 6024, PAYLOAD = 16 << 20 };

static int number;
static volatile pid_t waiting;
static char text[16];

static void *reads(void *ignored) {
    (void)ignored;
    waiting = (pid_t)syscall(SYS_gettid);
    return (void *)read(number, text, sizeof text);
}

static void *writes(void *payload) {
    waiting = (pid_t)syscall(SYS_gettid);
    return (void *)send(number, payload, PAYLOAD, MSG_NOSIGNAL);
}

/* Waits until the thread sleeps in its call. */
static void sleeps(void) {
    for (int seen = 0; seen < 20; pause_ms(5)) {
        char path[64], state = 0;
        if (waiting == 0) continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", waiting);
        FILE *file = fopen(path, "r");
        MUST(file != NULL);
        MUST(fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
        fclose(file);
        seen = state == 'S' ? seen + 1 : 0;
    }
}

static void another_file_is_not_read(const char *what) {
    int other[2], left = 0;
    pthread_t thread;
    waiting = 0;
    MUST(pipe(other) == 0 && write(other[1], "secret", 6) == 6);
    MUST(pthread_create(&thread, NULL, reads, NULL) == 0);
    sleeps();
    told("dup2", dup2(other[0], number) == number);
    MUST(pthread_join(thread, NULL) == 0);
    MUST(ioctl(number, FIONREAD, &left) == 0);
    say("%s: %d bytes are left, the reader has another's: %d", what, left,
        memcmp(text, "secret", 6) == 0);
    close(number), close(other[0]), close(other[1]);
}

static int replacing;

static void *replaces(void *ignored) {
    (void)ignored;
    waiting = (pid_t)syscall(SYS_gettid);
    return (void *)(long)dup2(replacing, number);
}

/* What was written to it goes first, before the old file is gone; not before the new one is there. */
static void another_file_is_there_at_once(char *payload) {
    struct linger linger = {1, 20};
    int other[2], full = 0;
    pthread_t thread;
    waiting = 0;
    number = dials(address_there, PORT_LATE);
    MUST(setsockopt(number, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    while (full < 10) {
        full = send(number, payload, PAYLOAD, MSG_NOSIGNAL | MSG_DONTWAIT) > 0 ? 0 : full + 1;
        pause_ms(5);
    }
    MUST(pipe(other) == 0 && write(other[1], "secret", 6) == 6);
    replacing = other[0];
    MUST(pthread_create(&thread, NULL, replaces, NULL) == 0);
    sleeps();
    told("read of what stands there while the old one lingers", read(number, text, sizeof text));
    MUST(pthread_join(thread, NULL) == 0);
}

static void here(void) {
    number = dials(address_there, PORT_SILENT);
    another_file_is_not_read("TCP");
    number = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in name = place(address_there, PORT_UDP);
    MUST(connect(number, (struct sockaddr *)&name, sizeof name) == 0);
    /* It answers later. */
    MUST(send(number, "?", 1, 0) == 1);
    another_file_is_not_read("UDP");

    char *payload = calloc(1, PAYLOAD);
    pthread_t thread;
    waiting = 0;
    number = dials(address_there, PORT_STUCK);
    int file = memfd_create("other", 0);
    MUST(payload != NULL && file >= 0);
    MUST(pthread_create(&thread, NULL, writes, payload) == 0);
    sleeps();
    told("dup2", dup2(file, number) == number);
    MUST(pthread_join(thread, NULL) == 0);
    say("the file has %ld bytes", (long)lseek(file, 0, SEEK_END));
    another_file_is_there_at_once(payload);
}

static void there(void) {
    int silent = listens(PORT_SILENT), stuck = listens(PORT_STUCK), late = listens(PORT_LATE);
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in name = place("0.0.0.0", PORT_UDP), from;
    socklen_t bytes = sizeof from;
    char byte;
    MUST(bind(udp, (struct sockaddr *)&name, sizeof name) == 0);
    int fd = accepts(silent);
    /* Where the call goes on with the old file, this ends it. */
    pause_ms(1000);
    send(fd, "late", 4, MSG_NOSIGNAL);
    close(fd);
    MUST(recvfrom(udp, &byte, 1, 0, (struct sockaddr *)&from, &bytes) == 1);
    pause_ms(1000);
    MUST(sendto(udp, "late", 4, 0, (struct sockaddr *)&from, bytes) == 4);
    fd = accepts(stuck);
    pause_ms(1000);
    static char all[1 << 16];
    while (read(fd, all, sizeof all) > 0) {}
    close(fd);
    fd = accepts(late);
    pause_ms(2000);
    while (read(fd, all, sizeof all) > 0) {}
    close(fd);
}
