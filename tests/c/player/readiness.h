/* poll, select and epoll. */

static const struct bit events[] = {
    {"in", EPOLLIN},   {"out", EPOLLOUT},     {"pri", EPOLLPRI}, {"rdhup", EPOLLRDHUP},
    {"err", EPOLLERR}, {"hup", EPOLLHUP},     {"nval", POLLNVAL}, {"et", EPOLLET},
    {"oneshot", EPOLLONESHOT}, {"exclusive", EPOLLEXCLUSIVE}, {NULL, 0},
};

/* poll MS EVENTS A B ...: what is told of each. */
static void poll_call(struct call *call) {
    struct pollfd list[WORDS_MAX];
    nfds_t count = 0;
    for (int i = 3; i < call->words; i++) {
        short wanted = (short)bits_of(word(call, 2), events);
        list[count++] = (struct pollfd){.fd = fd_of(word(call, i)), .events = wanted};
    }
    if (!told(call, poll(list, count, number(call, 1)))) return;
    for (nfds_t i = 0; i < count; i++) {
        tell(call, " %s:", word(call, (int)i + 3));
        tell_bits(call, (unsigned short)list[i].revents, events);
    }
}

/* select MS A B ... */
static void select_call(struct call *call) {
    fd_set set[3];
    struct timeval time = {number(call, 1) / 1000, number(call, 1) % 1000 * 1000};
    int highest = -1;
    for (int i = 0; i < 3; i++) FD_ZERO(&set[i]);
    for (int i = 2; i < call->words; i++) {
        int fd = fd_of(word(call, i));
        if (fd < 0) continue;
        for (int j = 0; j < 3; j++) FD_SET(fd, &set[j]);
        if (fd > highest) highest = fd;
    }
    if (!told(call, select(highest + 1, &set[0], &set[1], &set[2], &time))) return;
    for (int i = 2; i < call->words; i++) {
        int fd = fd_of(word(call, i));
        if (fd < 0) continue;
        tell(call, " %s:%s%s%s", word(call, i), FD_ISSET(fd, &set[0]) ? "r" : "",
             FD_ISSET(fd, &set[1]) ? "w" : "", FD_ISSET(fd, &set[2]) ? "x" : "");
    }
}

static void epoll_call(struct call *call) {
    int fd = epoll_create1(EPOLL_CLOEXEC);
    done(call, fd);
    name_fd(word(call, 1), fd);
}

/* add E A EVENTS, mod E A EVENTS, del E A. An event is told by the name that the member had when it
   was added or set anew. */
static void ctl_call(struct call *call, int fd) {
    int member = fd_of(word(call, 2));
    int op = is(word(call, 0), "add") ? EPOLL_CTL_ADD
             : is(word(call, 0), "mod") ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    struct epoll_event event = {.events = bits_of(word(call, 3), events)};
    memcpy(&event.data, word(call, 2), strnlen(word(call, 2), sizeof event.data));
    if (member < 0) tell(call, "-");
    else done(call, epoll_ctl(fd, op, member, &event));
}

static int by_name(const void *one, const void *other) {
    return memcmp(&((const struct epoll_event *)one)->data,
                  &((const struct epoll_event *)other)->data, sizeof(epoll_data_t));
}

/* wait E MS: the events, ordered by name. */
static void wait_call(struct call *call, int fd) {
    struct epoll_event list[NAMES_MAX];
    int count = epoll_wait(fd, list, NAMES_MAX, number(call, 2));
    if (!told(call, count)) return;
    qsort(list, (size_t)count, sizeof *list, by_name);
    for (int i = 0; i < count; i++) {
        tell(call, " %.8s:", (const char *)&list[i].data);
        tell_bits(call, list[i].events, events);
    }
}
