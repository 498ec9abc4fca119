/* Children that share the memory of their parent (vfork, posix_spawn) and close everything that they
   have: nothing of the parent's ends. */
#include "trap.h"
#include <spawn.h>
#include <sys/syscall.h>

enum { PORT_ECHO = 6002 };

extern char **environ;

static void still_works(const char *after, int fd, int set) {
    struct epoll_event event;
    put(fd, "still");
    MUST(epoll_wait(set, &event, 1, 5000) == 1);
    say("after %s: event %x", after, event.events);
    hears("parent", fd, 5);
}

static void here(void) {
    int fd = dials(address_there, PORT_ECHO), set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    still_works("nothing", fd, set);

    pid_t child = vfork();
    if (child == 0) {
        for (int other = 3; other < 1024; other++) close(other);
        _exit(7);
    }
    ended("child of vfork", child);
    still_works("vfork", fd, set);

    child = vfork();
    if (child == 0) {
        close_range(3, ~0U, 0);
        execl("/bin/echo", "echo", "a program of vfork", NULL);
        _exit(1);
    }
    ended("program of vfork", child);
    still_works("vfork and exec", fd, set);

    posix_spawn_file_actions_t actions;
    char *words[] = {"echo", "a spawned program", NULL};
    MUST(posix_spawn_file_actions_init(&actions) == 0);
    MUST(posix_spawn_file_actions_addclose(&actions, fd) == 0);
    MUST(posix_spawn_file_actions_addclosefrom_np(&actions, 3) == 0);
    MUST(posix_spawn(&child, "/bin/echo", &actions, NULL, words, environ) == 0);
    ended("spawned program", child);
    still_works("posix_spawn", fd, set);

    say("system: %d", system("exec 3<&- 4<&- 5<&-; echo a shell"));
    still_works("system", fd, set);
    FILE *pipe = popen("echo a pipe", "r");
    char line[64] = {0};
    MUST(pipe != NULL && fgets(line, sizeof line, pipe) != NULL);
    say("popen: %d, %s", pclose(pipe), strtok(line, "\n"));
    still_works("popen", fd, set);
    told("close", close(fd));
}

static void there(void) { echoes_to(PORT_ECHO, 1); }
