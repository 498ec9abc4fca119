/* Programs of this host that call one after another: each brings memory that both share, and takes it away. */
#include "trap.h"
#include <dirent.h>

enum { PORT_LISTEN = 5017, CALLERS = 20, FEW = 24 };

static int open_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    MUST(folder != NULL);
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count;
}

static void calls(void) {
    int fd = dials(address_here, PORT_LISTEN);
    char byte;
    put(fd, "x");
    MUST(read(fd, &byte, 1) == 0);
    close(fd);
}

static void here(void) {
    if (getenv("CALLS") != NULL) {
        calls();
        return;
    }
    int listener = listens(PORT_LISTEN), before = 0, served = 0;
    MUST(fcntl(listener, F_SETFD, FD_CLOEXEC) == 0 && setenv("CALLS", "1", 1) == 0);
    for (int i = 0; i < CALLERS; i++) {
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            execl(self, self, "here", address_here, address_there, NULL);
            _exit(127);
        }
        int fd = accepts(listener), status = 0;
        char byte = 0;
        MUST(read(fd, &byte, 1) == 1 && close(fd) == 0);
        MUST(waitpid(child, &status, 0) == child && status == 0);
        served += byte == 'x';
        if (i == 0) before = open_descriptors();
    }
    say("%d callers are served", served);
    /* Memory goes when the daemon has heard of its owner's end. */
    int is_few = 0;
    for (int i = 0; i < 2000 && !is_few; i++) {
        is_few = open_descriptors() < before + FEW;
        if (!is_few) pause_ms(5);
    }
    say("their descriptors are few: %d", is_few);
    close(listener);
}

static void there(void) {}
