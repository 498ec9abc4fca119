/* A program that begins with a caller at its standard input and output, as a super-server starts it, and
   talks to it by stdio alone. */
#include "trap.h"

enum { PORT_ECHO = 6020 };

static void served(int report) {
    char line[64] = {0};
    printf("a line of %s\n", "printf");
    int flushed = fflush(stdout);
    char *got = fgets(line, sizeof line, stdin);
    puts("a second one");
    flushed |= fflush(NULL);
    int letters[3] = {getchar(), getchar(), getchar()};
    int numbers[2] = {fileno(stdin), fileno(stdout)};
    fprintf(stderr, "an error\n");
    long place = ftell(stdout);
    int error = errno;
    MUST(dup2(report, 1) == 1);
    say("flushed: %d, echoed: %s, then %c%c%c", flushed, got ? strtok(line, "\n") : "nothing", letters[0],
        letters[1], letters[2]);
    say("numbers: %d and %d, place: %ld, %s", numbers[0], numbers[1], place, strerrorname_np(error));
    char rest[] = " second one\nan error";
    for (size_t i = 1; i < sizeof rest - 1; i++) line[i] = (char)getchar();
    say("the rest: %d", memcmp(line + 1, rest + 1, sizeof rest - 2) == 0);
}

static void here(void) {
    char number[16], *again[] = {(char *)self, "here", (char *)address_here, (char *)address_there, NULL};
    if (getenv("TRAP_REPORT") != NULL) {
        served(atoi(getenv("TRAP_REPORT")));
        return;
    }
    int report = dup(1), fd = dials(address_there, PORT_ECHO);
    snprintf(number, sizeof number, "%d", report);
    MUST(setenv("TRAP_REPORT", number, 1) == 0);
    for (int i = 0; i < 3; i++) MUST(dup2(fd, i) == i);
    close(fd);
    execv(self, again);
    MUST(!"the new program starts");
}

static void there(void) { echoes_to(PORT_ECHO, 1); }
