/* Threads that sleep in a call, a child, and descriptors that are passed on. */

enum { SLEEPERS_MAX = 8, STUBBORN_MS = 2000 };

static void play(struct call *call);

static struct sleeper {
    char name[WORD_BYTES_MAX], line[LINE_BYTES_MAX];
    struct call call;
    pthread_t thread;
    int is_there;
} sleepers[SLEEPERS_MAX];

/* The child that plays lines that begin with "child"; and whether we are one. */
static struct { pid_t pid; int lines; } child = {-1, -1};

/* Where descriptors come in. */
static int mailbox = -1;
static const char *mail_folder;

static void interrupt(int signal) { (void)signal; }

static void split(struct call *call, char *line) {
    char *rest = NULL;
    for (char *at = strtok_r(line, " ", &rest); at && call->words < WORDS_MAX;
         at = strtok_r(NULL, " ", &rest))
        call->word[call->words++] = at;
}

static void *sleep_in_call(void *argument) {
    play(&((struct sleeper *)argument)->call);
    return NULL;
}

static struct sleeper *sleeper_of(const char *name) {
    for (int i = 0; i < SLEEPERS_MAX; i++)
        if (sleepers[i].is_there && is(sleepers[i].name, name)) return &sleepers[i];
    return NULL;
}

/* start T CALL ...: by a thread; join T tells what came of it. */
static void start_call(struct call *call) {
    struct sleeper *one = NULL;
    for (int i = 0; i < SLEEPERS_MAX; i++)
        if (!sleepers[i].is_there) one = &sleepers[i];
    if (!one || sleeper_of(word(call, 1))) {
        tell(call, "-");
        return;
    }
    memset(one, 0, sizeof *one);
    for (int i = 2, at = 0; i < call->words; i++)
        at += snprintf(one->line + at, sizeof one->line - (size_t)at, "%s ", call->word[i]);
    snprintf(one->name, sizeof one->name, "%s", word(call, 1));
    one->call.timeout_ms = STUBBORN_MS;
    split(&one->call, one->line);
    sigset_t alarms;
    sigemptyset(&alarms), sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    if (pthread_create(&one->thread, NULL, sleep_in_call, one) != 0) die("pthread_create");
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    one->is_there = 1;
    tell(call, "0");
}

static int joins(struct sleeper *one, long wait_ms) {
    struct timespec until, more = ms(wait_ms);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += more.tv_sec, until.tv_nsec += more.tv_nsec;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    if (pthread_timedjoin_np(one->thread, NULL, &until) != 0) return 0;
    one->is_there = 0;
    return 1;
}

static void join_call(struct call *call) {
    struct sleeper *one = sleeper_of(word(call, 1));
    if (!one) tell(call, "-");
    else if (joins(one, call->timeout_ms)) tell(call, "%s", one->call.told);
    else tell(call, "waits");
}

static void wake_sleepers(void) {
    for (int i = 0; i < SLEEPERS_MAX; i++) {
        int tries = 0;
        while (sleepers[i].is_there && !joins(&sleepers[i], 2)) {
            pthread_kill(sleepers[i].thread, SIGUSR1);
            if (++tries > STUBBORN_MS / 2) {
                dprintf(2, "player: it calls %s %s\n", word(&sleepers[i].call, 0),
                        word(&sleepers[i].call, 1));
                die("a thread stays in its call");
            }
        }
    }
}

static void serve(int from, int to);

static void fork_call(struct call *call) {
    int ends[2];
    if (child.pid > 0 || child.pid == 0) {
        tell(call, "-");
        return;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) die("socketpair");
    child.pid = fork();
    if (child.pid < 0) die("fork");
    if (child.pid == 0) {
        close(ends[0]);
        serve(ends[1], ends[1]);
        _exit(0);
    }
    close(ends[1]);
    child.lines = ends[0];
    tell(call, "0");
}

static void end_child(void) {
    int status;
    if (child.pid <= 0) return;
    close(child.lines);
    while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {}
    child.pid = child.lines = -1;
}

/* child CALL ... */
static void child_call(struct call *call) {
    char line[LINE_BYTES_MAX];
    if (child.pid <= 0) {
        tell(call, "-");
        return;
    }
    if (is(word(call, 1), "exit")) {
        end_child();
        tell(call, "0");
        return;
    }
    int bytes = snprintf(line, sizeof line, "%d", call->timeout_ms);
    for (int i = 1; i < call->words; i++)
        bytes += snprintf(line + bytes, sizeof line - (size_t)bytes, " %s", call->word[i]);
    line[bytes++] = '\n';
    if (write(child.lines, line, (size_t)bytes) != bytes) die("a child has gone");
    for (bytes = 0; bytes == 0 || line[bytes - 1] != '\n';) {
        ssize_t got = read(child.lines, line + bytes, sizeof line - (size_t)bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) die("a child has gone");
        bytes += (int)got;
    }
    tell(call, "%.*s", bytes - 1, line);
}

static socklen_t mail_address(const char *who, struct sockaddr_un *name) {
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(name->sun_path, sizeof name->sun_path, "%s/%s.mail", mail_folder, who);
    return sizeof *name;
}

static void open_mailbox(const char *who) {
    struct sockaddr_un name;
    socklen_t bytes = mail_address(who, &name);
    mailbox = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unlink(name.sun_path);
    if (mailbox < 0 || bind(mailbox, (struct sockaddr *)&name, bytes) != 0) die(name.sun_path);
}

union rights {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr header;
};

/* give A WHO */
static void give_call(struct call *call, int fd) {
    struct sockaddr_un name;
    union rights rights = {0};
    char byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_name = &name, .msg_namelen = mail_address(word(call, 2), &name),
        .msg_iov = &part, .msg_iovlen = 1,
        .msg_control = &rights, .msg_controllen = sizeof rights,
    };
    rights.header.cmsg_level = SOL_SOCKET, rights.header.cmsg_type = SCM_RIGHTS;
    rights.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&rights.header), &fd, sizeof fd);
    told(call, sendmsg(mailbox, &message, MSG_DONTWAIT));
}

/* take A; whether there was one. */
static int takes(int *fd) {
    union rights rights = {0};
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1,
        .msg_control = &rights, .msg_controllen = sizeof rights,
    };
    *fd = -1;
    if (recvmsg(mailbox, &message, MSG_DONTWAIT) < 0) return 0;
    if (message.msg_controllen) memcpy(fd, CMSG_DATA(&rights.header), sizeof *fd);
    return 1;
}

static void take_call(struct call *call) {
    int fd;
    if (!takes(&fd)) told(call, -1);
    else tell(call, "0");
    name_fd(word(call, 1), fd);
}
