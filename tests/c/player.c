/* The player of call sequences: `player WHO FOLDER HERE THERE HERE6 THERE6` reads a line for each
   call, "TIMEOUT_MS CALL WORD ...", and prints a line of what came of it: the number, the name of
   the error, "waits" where the call had to be interrupted, or "-" where a descriptor is missing. */
#include "player/names.h"
#include "player/address.h"
#include "player/sockets.h"
#include "player/bytes.h"
#include "player/beside.h"
#include "player/readiness.h"
#include "player/others.h"

struct verb { const char *name; void (*call)(struct call *); void (*on)(struct call *, int fd); };

static void reset_call(struct call *call);

static const struct verb verbs[] = {
    {"socket", socket_call, NULL},  {"bind", NULL, bind_call},
    {"connect", NULL, connect_call}, {"accept", NULL, accept_call},
    {"listen", NULL, listen_call},
    {"getsockname", NULL, names_call}, {"getpeername", NULL, names_call},
    {"shutdown", NULL, shutdown_call}, {"dup", NULL, dup_call},
    {"dup2", NULL, dup_call},       {"dupfd", NULL, dup_call},
    {"close", NULL, close_call},    {"nonblock", NULL, nonblock_call},
    {"fionbio", NULL, nonblock_call}, {"flags", NULL, flags_call},
    {"set", NULL, set_call},        {"get", NULL, get_call},
    {"fionread", NULL, number_call}, {"atmark", NULL, number_call},
    {"send", NULL, send_call},      {"write", NULL, send_call},
    {"sendto", NULL, send_call},    {"sendmsg", NULL, sendmsg_call},
    {"overfill", NULL, overfill_call}, {"pour", NULL, pour_call},
    {"refuse", NULL, refuse_call},
    {"writev", NULL, sendmsg_call}, {"sendmmsg", NULL, sendmmsg_call},
    {"recv", NULL, recv_call},      {"read", NULL, recv_call},
    {"recvfrom", NULL, recv_call},  {"recvmsg", NULL, recvmsg_call},
    {"readv", NULL, recvmsg_call},  {"recvmmsg", NULL, recvmmsg_call},
    {"sendbeside", NULL, sendbeside_call}, {"recvbeside", NULL, recvbeside_call},
    {"drain", NULL, drain_call},    {"sendfile", NULL, file_call},
    {"splice-out", NULL, file_call}, {"splice-in", NULL, splice_in_call},
    {"poll", poll_call, NULL},      {"select", select_call, NULL},
    {"epoll", epoll_call, NULL},    {"add", NULL, ctl_call},
    {"mod", NULL, ctl_call},        {"del", NULL, ctl_call},
    {"wait", NULL, wait_call},      {"start", start_call, NULL},
    {"join", join_call, NULL},      {"fork", fork_call, NULL},
    {"child", child_call, NULL},    {"give", NULL, give_call},
    {"take", take_call, NULL},      {"reset", reset_call, NULL},
};

static void play(struct call *call) {
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (!is(verbs[i].name, word(call, 0))) continue;
        int fd = verbs[i].on ? fd_of(word(call, 1)) : 0;
        if (fd < 0) tell(call, "-");
        else if (verbs[i].on) verbs[i].on(call, fd);
        else verbs[i].call(call);
        return;
    }
    die(word(call, 0));
}

/* reset PORT: ends all that is left of a sequence; the next one has four ports from PORT on. */
static void reset_call(struct call *call) {
    int fd;
    wake_sleepers();
    end_child();
    while (takes(&fd))
        if (fd >= 0) close(fd);
    for (int i = 0; i < NAMES_MAX; i++) {
        struct linger now = {1, 0};
        if (names[i].fd < 0) continue;
        setsockopt(names[i].fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(names[i].fd);
        names[i].fd = -1;
    }
    first_port = number(call, 1);
    tell(call, "0");
}

/* A signal comes again and again from when the time is over: one may come before the call has
   begun to wait. */
static void set_timer(int ms_left) {
    struct itimerval timer = {{0, ms_left ? 5000 : 0}, {ms_left / 1000, ms_left % 1000 * 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void answer(char *line, int to) {
    struct call call = {0};
    split(&call, line);
    call.timeout_ms = number(&call, 0);
    memmove(call.word, call.word + 1, sizeof call.word - sizeof *call.word);
    call.words--;
    const char *verb = word(&call, 0);
    int has_own_wait = is(verb, "join") || is(verb, "child") || is(verb, "reset") ||
                       is(verb, "drain") || is(verb, "start") || is(verb, "fork");
    if (!has_own_wait) set_timer(call.timeout_ms);
    play(&call);
    set_timer(0);
    call.told[call.told_bytes++] = '\n';
    if (write(to, call.told, (size_t)call.told_bytes) != call.told_bytes) _exit(0);
}

/* Until nobody asks any more. */
static void serve(int from, int to) {
    static char text[LINE_BYTES_MAX];
    size_t bytes = 0;
    for (;;) {
        char *end = memchr(text, '\n', bytes);
        if (end) {
            char line[LINE_BYTES_MAX];
            size_t length = (size_t)(end - text);
            memcpy(line, text, length), line[length] = 0;
            memmove(text, end + 1, bytes -= length + 1);
            answer(line, to);
            continue;
        }
        ssize_t got = read(from, text + bytes, sizeof text - bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        bytes += (size_t)got;
    }
}

static void name_hosts(char **words) {
    const char *ends[] = {"here", "there"};
    for (int i = 0; i < 2; i++) {
        char mapped[WORD_BYTES_MAX], six[WORD_BYTES_MAX];
        snprintf(mapped, sizeof mapped, "mapped-%s", ends[i]);
        snprintf(six, sizeof six, "%s6", ends[i]);
        name_host(ends[i], "", words[i]);
        name_host(mapped, "::ffff:", words[i]);
        name_host(six, "", words[i + 2]);
    }
}

int main(int count, char **words) {
    if (count < 7) return 2;
    struct sigaction action = {.sa_handler = interrupt};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < NAMES_MAX; i++) names[i].fd = -1;
    mail_folder = words[2];
    open_mailbox(words[1]);
    name_hosts(words + 3);
    serve(0, 1);
    wake_sleepers();
    end_child();
    return 0;
}
