/* Programs that are started by one with a connection: who goes on with it, and who may not. */
#include "trap.h"
#include <grp.h>
#include <spawn.h>
#include <sys/stat.h>

enum { PORT_ECHO = 6020, NOBODY = 65534 };

/* Whether this process was started with a ticket, whatever was done to its variables since. */
static int has_ticket(void) {
    static char text[65536];
    int fd = open("/proc/self/environ", O_RDONLY);
    /* A set-user-ID program may not read its own; nor is anything taken out of it. */
    if (fd < 0) return getenv("CALISTO_TICKET") != NULL;
    ssize_t bytes = 0, count;
    while ((count = read(fd, text + bytes, sizeof text - 1 - (size_t)bytes)) > 0) bytes += count;
    close(fd);
    for (ssize_t at = 0; at < bytes; at += (ssize_t)strlen(text + at) + 1)
        if (strncmp(text + at, "CALISTO_TICKET=", 15) == 0) return 1;
    return 0;
}

/* The inodes of shared memory without a file that is mapped here; how many. */
static int regions(unsigned long *inodes, int room) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;
    if (maps == NULL) return 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long inode;
        if (strstr(line, "memfd:") != NULL &&
            sscanf(line, "%*s %*s %*s %*s %lu", &inode) == 1 && count < room)
            inodes[count++] = inode;
    }
    fclose(maps);
    return count;
}

/* The helper: what it was given. */
static void helps(const char *what) {
    char name[32], text[8] = {0};
    unsigned long theirs, own[64];
    int fd;
    MUST(sscanf(what, "%31s %d %lu", name, &fd, &theirs) == 3);
    ssize_t bytes = recv(fd, text, 5, MSG_DONTWAIT);
    const char *got = bytes == 5 ? text : bytes < 0 ? strerrorname_np(errno) : "less";
    /* A socket of its own, wherever that is. */
    close(dials(address_there, PORT_ECHO));
    int count = regions(own, 64), shares = 0;
    for (int i = 0; i < count; i++) shares |= own[i] == theirs;
    say("%s: %s, %s, hears %s", name, has_ticket() ? "a ticket" : "no ticket",
        shares ? "the same memory" : "no memory of its starter", got);
}

static char *helper_words[] = {NULL, "here", NULL, NULL, NULL};
static char helper_text[128], stale[] = "CALISTO_TICKET=1:00000000000000000000000000000000";
static char *helper_environment[] = {helper_text, NULL, NULL};

/* Starts the helper as `uid` with this connection and an environment without ours. */
static void starts(const char *name, int fd, unsigned long region, uid_t uid, int keeps) {
    snprintf(helper_text, sizeof helper_text, "TRAP_HELPER=%s %d %lu", name, fd, region);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        if (!keeps) MUST(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
        if (uid != 0) MUST(setgroups(0, NULL) == 0 && setgid(uid) == 0 && setuid(uid) == 0);
        execve(self, helper_words, helper_environment);
        MUST(!"the helper starts");
    }
    ended(name, child);
}

static void here(void) {
    unsigned long region = 0;
    const char *what = getenv("TRAP_HELPER");
    if (what != NULL) {
        helps(what);
        return;
    }
    helper_words[0] = (char *)self;
    helper_words[2] = (char *)address_here;
    helper_words[3] = (char *)address_there;
    int fd = dials(address_there, PORT_ECHO);
    MUST(regions(&region, 1) == 1);
    put(fd, "hellohellohello");
    char text[16];
    MUST(recv(fd, text, 15, MSG_PEEK | MSG_WAITALL) == 15);
    starts("same-user", fd, region, 0, 1);
    starts("closed", fd, region, 0, 0);
    starts("other-user", fd, region, NOBODY, 1);
    helper_environment[1] = stale;
    starts("stale", fd, region, NOBODY, 1);
    helper_environment[1] = NULL;
    /* Without actions nothing but what is left open goes along. */
    pid_t child;
    MUST(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    snprintf(helper_text, sizeof helper_text, "TRAP_HELPER=spawned %d %lu", fd, region);
    MUST(posix_spawn(&child, self, NULL, NULL, helper_words, helper_environment) == 0);
    ended("spawned", child);
    /* A file of another user that takes its owner's rights. */
    MUST(fcntl(fd, F_SETFD, 0) == 0);
    MUST(chmod(self, 04755) == 0 && chown(self, NOBODY, NOBODY) == 0 && chmod(self, 04755) == 0);
    snprintf(helper_text, sizeof helper_text, "TRAP_HELPER=set-user-id %d %lu", fd, region);
    child = fork();
    if (child == 0) {
        execve(self, helper_words, helper_environment);
        MUST(!"the helper starts");
    }
    ended("set-user-id", child);
    hears("the program", fd, 10);
}

static void there(void) {
    echoes_to(PORT_ECHO, 7);
}
