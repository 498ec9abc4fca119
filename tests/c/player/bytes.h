/* Calls that carry bytes. A text is a word, or LETTER*COUNT: that many bytes of the alphabet. */

enum { BYTES_MAX = 1 << 20, VERBATIM_MAX = 40, MESSAGES = 4 };

static const struct bit message_flags[] = {
    {"oob", MSG_OOB},         {"peek", MSG_PEEK},   {"dontwait", MSG_DONTWAIT},
    {"waitall", MSG_WAITALL}, {"trunc", MSG_TRUNC}, {"more", MSG_MORE},
    {"ctrunc", MSG_CTRUNC},   {"errqueue", MSG_ERRQUEUE},
    {"cloexec", MSG_CMSG_CLOEXEC}, {NULL, 0},
};

static size_t text_of(const char *name, char *bytes) {
    const char *star = strchr(name, '*');
    size_t count = star ? (size_t)atoi(star + 1) : strlen(name);
    if (count > BYTES_MAX) count = BYTES_MAX;
    for (size_t i = 0; i < count; i++)
        bytes[i] = star ? (char)('a' + ((size_t)(*name - 'a') + i) % 26) : name[i];
    return count;
}

static void tell_bytes(struct call *call, const char *bytes, size_t count) {
    if (count == 0) return;
    if (count <= VERBATIM_MAX) {
        tell(call, " \"%.*s\"", (int)count, bytes);
        return;
    }
    /* FNV-1a. */
    unsigned hash = 2166136261u;
    for (size_t i = 0; i < count; i++) hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    tell(call, " #%08x", hash);
}

/* Each call has a buffer of its own: a thread may sleep in another one. */
static char *room(void) {
    char *bytes = calloc(1, BYTES_MAX);
    if (!bytes) die("calloc");
    return bytes;
}

/* send A TEXT [FLAGS], write A TEXT, sendto A ADDRESS TEXT [FLAGS] */
static void send_call(struct call *call, int fd) {
    char *bytes = room();
    int has_address = is(word(call, 0), "sendto");
    size_t count = text_of(word(call, 2 + has_address), bytes);
    int flags = (int)bits_of(word(call, 3 + has_address), message_flags) | MSG_NOSIGNAL;
    union address name;
    if (is(word(call, 0), "write")) told(call, write(fd, bytes, count));
    else if (!has_address) told(call, send(fd, bytes, count, flags));
    else {
        socklen_t length = address_of(word(call, 2), &name);
        told(call, sendto(fd, bytes, count, flags, length ? &name.any : NULL, length));
    }
    free(bytes);
}

/* overfill A: three times as much as SO_SNDBUF tells, without waiting; whether all of it went. */
static void overfill_call(struct call *call, int fd) {
    int buffer = 0;
    socklen_t length = sizeof buffer;
    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, &length);
    size_t count = 3 * (size_t)buffer;
    char *bytes = calloc(1, count);
    if (!bytes) die("calloc");
    ssize_t sent = send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (done(call, sent)) tell(call, (size_t)sent < count ? " part" : " all");
    free(bytes);
}

/* pour A: more than there is room for, waiting; whether all of it went. */
static void pour_call(struct call *call, int fd) {
    size_t count = 1 << 24;
    char *bytes = calloc(1, count);
    if (!bytes) die("calloc");
    ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
    if (done(call, sent)) tell(call, (size_t)sent < count ? " part" : " all");
    free(bytes);
}

/* sendmsg A ADDRESS TEXT TEXT [FLAGS], writev A - TEXT TEXT */
static void sendmsg_call(struct call *call, int fd) {
    char *one = room(), *two = room();
    union address name;
    socklen_t length = address_of(word(call, 2), &name);
    struct iovec parts[] = {{one, text_of(word(call, 3), one)}, {two, text_of(word(call, 4), two)}};
    struct msghdr message = {
        .msg_name = length ? &name : NULL, .msg_namelen = length,
        .msg_iov = parts, .msg_iovlen = 2,
    };
    int flags = (int)bits_of(word(call, 5), message_flags) | MSG_NOSIGNAL;
    told(call, is(word(call, 0), "writev") ? writev(fd, parts, 2) : sendmsg(fd, &message, flags));
    free(one), free(two);
}

/* sendmmsg A ADDRESS TEXT COUNT: the same message COUNT times. */
static void sendmmsg_call(struct call *call, int fd) {
    char *bytes = room();
    union address name;
    socklen_t length = address_of(word(call, 2), &name);
    struct iovec part = {bytes, text_of(word(call, 3), bytes)};
    struct mmsghdr messages[MESSAGES] = {0};
    unsigned count = (unsigned)number(call, 4) < MESSAGES ? (unsigned)number(call, 4) : MESSAGES;
    for (unsigned i = 0; i < count; i++)
        messages[i].msg_hdr = (struct msghdr){
            .msg_name = length ? &name : NULL, .msg_namelen = length,
            .msg_iov = &part, .msg_iovlen = 1,
        };
    int sent = sendmmsg(fd, messages, count, MSG_NOSIGNAL);
    told(call, sent);
    for (int i = 0; i < sent; i++) tell(call, " %u", messages[i].msg_len);
    free(bytes);
}

/* recv A COUNT [FLAGS], read A COUNT, recvfrom A COUNT [FLAGS] */
static void recv_call(struct call *call, int fd) {
    char *bytes = room();
    size_t count = (size_t)number(call, 2);
    int flags = (int)bits_of(word(call, 3), message_flags);
    int has_address = is(word(call, 0), "recvfrom");
    union address name = {0};
    socklen_t length = sizeof name;
    ssize_t got;
    if (is(word(call, 0), "read")) got = read(fd, bytes, count);
    else if (has_address) got = recvfrom(fd, bytes, count, flags, &name.any, &length);
    else got = recv(fd, bytes, count, flags);
    if (told(call, got)) {
        tell_bytes(call, bytes, (size_t)got < count ? (size_t)got : count);
        if (has_address) tell_address(call, &name, length);
    }
    free(bytes);
}

/* recvmsg A COUNT COUNT [FLAGS], readv A COUNT COUNT */
static void recvmsg_call(struct call *call, int fd) {
    char *bytes = room();
    size_t first = (size_t)number(call, 2), second = (size_t)number(call, 3);
    union address name = {0};
    struct iovec parts[] = {{bytes, first}, {bytes + first, second}};
    struct msghdr message = {
        .msg_name = &name, .msg_namelen = sizeof name, .msg_iov = parts, .msg_iovlen = 2,
    };
    int has_flags = is(word(call, 0), "recvmsg");
    int flags = (int)bits_of(word(call, 4), message_flags);
    ssize_t got = has_flags ? recvmsg(fd, &message, flags) : readv(fd, parts, 2);
    if (told(call, got)) {
        size_t all = first + second;
        tell_bytes(call, bytes, (size_t)got < all ? (size_t)got : all);
        if (has_flags) {
            tell_address(call, &name, message.msg_namelen);
            tell(call, " ");
            tell_bits(call, (unsigned)message.msg_flags, message_flags);
        }
    }
    free(bytes);
}

/* recvmmsg A COUNT [FLAGS]: up to four messages of COUNT bytes; without waiting if no word is given.
   With the word "timed" it has five seconds, and tells whether it was told what is left of them. */
static void recvmmsg_call(struct call *call, int fd) {
    char *bytes = room();
    size_t count = (size_t)number(call, 2);
    struct mmsghdr messages[MESSAGES] = {0};
    struct iovec parts[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        parts[i] = (struct iovec){bytes + (size_t)i * count, count};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    const char *given = word(call, 3);
    int flags = *given ? (int)bits_of(given, message_flags) : MSG_DONTWAIT;
    int is_timed = has(given, "timed");
    struct timespec time = {5, 0};
    int got = recvmmsg(fd, messages, MESSAGES, flags, is_timed ? &time : NULL);
    told(call, got);
    if (is_timed) tell(call, time.tv_sec == 5 ? " untold" : " told");
    for (int i = 0; i < got; i++) tell_bytes(call, parts[i].iov_base, messages[i].msg_len);
    free(bytes);
}

/* drain A COUNT: reads until that many bytes, an end, an error, or nothing for a while. */
static void drain_call(struct call *call, int fd) {
    char *bytes = room();
    size_t wanted = (size_t)number(call, 2), all = 0;
    ssize_t got = 0;
    while (all < wanted) {
        got = recv(fd, bytes + all, wanted - all, MSG_DONTWAIT);
        if (got > 0) all += (size_t)got;
        struct pollfd one = {.fd = fd, .events = POLLIN};
        if (got == 0) break;
        if (got < 0 && (errno != EAGAIN || poll(&one, 1, call->timeout_ms) == 0)) {
            if (errno == EINTR) errno = EAGAIN;
            break;
        }
    }
    tell(call, "%zu", all);
    tell_bytes(call, bytes, all);
    if (all < wanted) tell(call, " then "), told(call, got);
    free(bytes);
}

/* sendfile A TEXT: of a file that has the text. splice-out A TEXT: of a pipe that has it. */
static void file_call(struct call *call, int fd) {
    char *bytes = room();
    size_t count = text_of(word(call, 2), bytes);
    int pipe_ends[2];
    if (is(word(call, 0), "sendfile")) {
        int file = memfd_create("text", MFD_CLOEXEC);
        if (file < 0 || write(file, bytes, count) != (ssize_t)count) die("memfd_create");
        off_t from = 0;
        told(call, sendfile(fd, file, &from, count));
        tell(call, " at %ld", (long)from);
        close(file);
    } else {
        if (count > 4096) count = 4096;
        if (pipe(pipe_ends) != 0 || write(pipe_ends[1], bytes, count) != (ssize_t)count) die("pipe");
        told(call, splice(pipe_ends[0], NULL, fd, NULL, count, SPLICE_F_NONBLOCK));
        close(pipe_ends[0]), close(pipe_ends[1]);
    }
    free(bytes);
}

/* splice-in A COUNT: through a pipe. */
static void splice_in_call(struct call *call, int fd) {
    char bytes[4096];
    int pipe_ends[2];
    size_t count = (size_t)number(call, 2) < sizeof bytes ? (size_t)number(call, 2) : sizeof bytes;
    if (pipe(pipe_ends) != 0) die("pipe");
    ssize_t moved = splice(fd, NULL, pipe_ends[1], NULL, count, SPLICE_F_NONBLOCK);
    if (told(call, moved) && moved > 0) {
        if (read(pipe_ends[0], bytes, (size_t)moved) != moved) die("read of a pipe");
        tell_bytes(call, bytes, (size_t)moved);
    }
    close(pipe_ends[0]), close(pipe_ends[1]);
}
