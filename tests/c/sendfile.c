/* Files and pipes into sockets and out of them, without the program seeing the bytes. */
#include "trap.h"
#include <sys/sendfile.h>
#include <sys/stat.h>

enum { PORT_ECHO = 6012, FILE_BYTES = 3000000 };

static char there_are[FILE_BYTES], came[FILE_BYTES];

static void *receives(void *fd) {
    size_t got = 0;
    while (got < FILE_BYTES) {
        ssize_t count = read(*(int *)fd, came + got, FILE_BYTES - got);
        MUST(count > 0);
        got += (size_t)count;
    }
    return NULL;
}

static void file(int fd, int from) {
    pthread_t reader;
    off_t at = 0;
    size_t sent = 0;
    MUST(pthread_create(&reader, NULL, receives, &fd) == 0);
    while (sent < FILE_BYTES) {
        ssize_t count = sendfile(fd, from, &at, FILE_BYTES - sent);
        MUST(count > 0);
        sent += (size_t)count;
        MUST((size_t)at == sent);
    }
    say("the file's own place is %ld", (long)lseek(from, 0, SEEK_CUR));
    MUST(pthread_join(reader, NULL) == 0);
    say("the same came back: %d", memcmp(there_are, came, FILE_BYTES) == 0);
    told("behind the end", sendfile(fd, from, &at, 10));
    MUST(lseek(from, FILE_BYTES - 5, SEEK_SET) >= 0);
    told("from its own place", sendfile(fd, from, NULL, 10));
    say("the file's own place is %ld", (long)lseek(from, 0, SEEK_CUR));
    MUST(recv(fd, came, 5, MSG_WAITALL) == 5);
    say("the same came back: %d", memcmp(there_are + FILE_BYTES - 5, came, 5) == 0);
    told("into a closed one", sendfile(999, from, NULL, 10));
    /* Without waiting: as much as there is room for, and not all. */
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    at = 0;
    sent = 0;
    ssize_t count = 0;
    told("without waiting, behind the end", sendfile(fd, from, &(off_t){FILE_BYTES}, 10));
    for (int i = 0; i < 10000 && count >= 0; i++) {
        at = 0;
        count = sendfile(fd, from, &at, FILE_BYTES);
        if (count > 0) sent += (size_t)count;
    }
    told("no more room", count);
    say("some went: %d", sent > 0);
    while (sent > 0) {
        MUST(ready(fd, POLLIN) & POLLIN);
        count = read(fd, came, sizeof came);
        MUST(count > 0);
        sent -= (size_t)count;
    }
    MUST(fcntl(fd, F_SETFL, 0) == 0);
}

static void pipes(int fd) {
    int ends[2];
    MUST(pipe(ends) == 0);
    MUST(write(ends[1], "through a pipe", 14) == 14);
    told("splice to the socket", splice(ends[0], NULL, fd, NULL, 14, 0));
    MUST(ready(fd, POLLIN) == POLLIN);
    pause_ms(50);
    told("splice from the socket", splice(fd, NULL, ends[1], NULL, 100, 0));
    hears("pipe", ends[0], 14);
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    told("nothing there", splice(fd, NULL, ends[1], NULL, 1, SPLICE_F_NONBLOCK));
    MUST(fcntl(fd, F_SETFL, 0) == 0);
    told("tee", tee(fd, ends[1], 1, 0));
    close(ends[0]), close(ends[1]);
}

static void streams(int fd) {
    FILE *stream = fdopen(dup(fd), "r+");
    char line[64] = {0};
    struct stat about;
    MUST(stream != NULL && fprintf(stream, "a line of %s\n", "stdio") > 0 && fflush(stream) == 0);
    MUST(fgets(line, sizeof line, stream) != NULL);
    say("%s", strtok(line, "\n"));
    MUST(fclose(stream) == 0);
    told("fstat", fstat(fd, &about));
    say("it is a socket: %d", S_ISSOCK(about.st_mode));
}

static void here(void) {
    char name[] = "/tmp/calisto-trap-XXXXXX";
    int from = mkstemp(name), fd = dials(address_there, PORT_ECHO);
    MUST(from >= 0 && unlink(name) == 0);
    for (int i = 0; i < FILE_BYTES; i++) there_are[i] = (char)(i * 7 + i / 251);
    MUST(write(from, there_are, FILE_BYTES) == FILE_BYTES && lseek(from, 0, SEEK_SET) == 0);
    file(fd, from);
    pipes(fd);
    streams(fd);
    close(fd);
}

static void there(void) { echoes_to(PORT_ECHO, 1); }
