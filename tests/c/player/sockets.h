/* Calls that make, name, connect and end sockets. */

static void socket_call(struct call *call) {
    const char *kind = word(call, 2);
    int family = strchr(kind, '6') ? AF_INET6 : AF_INET;
    int type = strncmp(kind, "udp", 3) == 0 ? SOCK_DGRAM : SOCK_STREAM;
    int fd = socket(family, type | (is(word(call, 3), "nonblock") ? SOCK_NONBLOCK : 0), 0);
    done(call, fd);
    name_fd(word(call, 1), fd);
}

static void bind_call(struct call *call, int fd) {
    union address name;
    socklen_t bytes = address_of(word(call, 2), &name);
    done(call, bind(fd, &name.any, bytes));
}

static void connect_call(struct call *call, int fd) {
    union address name;
    socklen_t bytes = address_of(word(call, 2), &name);
    done(call, connect(fd, &name.any, bytes));
}

static void listen_call(struct call *call, int fd) { done(call, listen(fd, number(call, 2))); }

static void accept_call(struct call *call, int fd) {
    union address name = {0};
    socklen_t bytes = sizeof name;
    int one = accept4(fd, &name.any, &bytes, is(word(call, 3), "nonblock") ? SOCK_NONBLOCK : 0);
    if (done(call, one)) tell_address(call, &name, bytes);
    name_fd(word(call, 2), one);
}

static void names_call(struct call *call, int fd) {
    union address name = {0};
    socklen_t bytes = sizeof name;
    int is_own = is(word(call, 0), "getsockname");
    int result = (is_own ? getsockname : getpeername)(fd, &name.any, &bytes);
    if (done(call, result)) tell_address(call, &name, bytes);
}

static void shutdown_call(struct call *call, int fd) {
    const char *how = word(call, 2);
    done(call, shutdown(fd, is(how, "rd") ? SHUT_RD : is(how, "wr") ? SHUT_WR : SHUT_RDWR));
}

static void dup_call(struct call *call, int fd) {
    const char *to = word(call, 2);
    int other = fd_of(to);
    if (is(word(call, 0), "dup2") && other >= 0) {
        done(call, dup2(fd, other));
        return;
    }
    int copy = is(word(call, 0), "dupfd") ? fcntl(fd, F_DUPFD_CLOEXEC, 40) : dup(fd);
    done(call, copy);
    name_fd(to, copy);
}

/* Sets that are none, are asked for what there is not, or are given too much room. */
static void refuse_set(struct call *call, int fd) {
    struct epoll_event shared = {.events = EPOLLIN | EPOLLRDHUP | EPOLLEXCLUSIVE};
    told(call, epoll_ctl(-1, EPOLL_CTL_ADD, fd, &shared)), tell(call, " ");
    told(call, epoll_ctl(-1, 77, fd, &shared)), tell(call, " ");
    told(call, epoll_ctl(fd, 77, fd, &shared)), tell(call, " ");
    told(call, epoll_ctl(-1, 77, fd, NULL)), tell(call, " ");
    struct epoll_event event = {.events = EPOLLPRI};
    int set = epoll_create1(0);
    if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll_ctl");
    volatile int too_many = 0x7fffffff / (int)sizeof event + 1;
    told(call, epoll_wait(set, &event, too_many, 0));
    close(set);
}

/* Addresses that no socket can have. */
static void refuse_address(struct call *call, int fd) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
    struct sockaddr *place = (struct sockaddr *)&name;
    told(call, bind(fd, (struct sockaddr *)8, sizeof name)), tell(call, " ");
    told(call, bind(fd, place, 1000)), tell(call, " ");
    told(call, bind(fd, place, 4)), tell(call, " ");
    told(call, bind(fd, place, sizeof name)), tell(call, " ");
    name.sin_family = 77;
    told(call, bind(fd, place, sizeof name)), tell(call, " ");
}

/* Control messages that say nothing that can be. */
static void refuse_control(struct call *call, int fd) {
    struct iovec part = {"x", 1};
    struct { struct cmsghdr header; int value; } control = {
        {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = 999}, 0,
    };
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
    message.msg_controllen = sizeof control;
    told(call, sendmsg(fd, &message, MSG_NOSIGNAL)), tell(call, " ");
    control.header.cmsg_len = 4;
    told(call, sendmsg(fd, &message, MSG_NOSIGNAL)), tell(call, " ");
    control.header.cmsg_len = 4000;
    told(call, sendmsg(fd, &message, MSG_NOSIGNAL)), tell(call, " ");
    message.msg_control = (void *)8;
    told(call, sendmsg(fd, &message, MSG_NOSIGNAL)), tell(call, " ");
    message.msg_controllen = 1UL << 31;
    told(call, sendmsg(fd, &message, MSG_NOSIGNAL)), tell(call, " ");
}

/* refuse A B: calls that Linux refuses, and that change nothing; the names of their errors. */
static void refuse_call(struct call *call, int fd) {
    int to = fd_of(word(call, 2));
    struct sockaddr_storage name = {.ss_family = AF_INET};
    told(call, dup3(fd, to < 0 ? fd : to, 1)), tell(call, " ");
    told(call, close_range((unsigned)fd, (unsigned)fd, 1 << 20)), tell(call, " ");
    told(call, sendto(fd, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&name, 1000)), tell(call, " ");
    told(call, sendto(fd, "x", 1, MSG_NOSIGNAL, (struct sockaddr *)8, sizeof name)), tell(call, " ");
    told(call, connect(fd, (struct sockaddr *)&name, 1000)), tell(call, " ");
    socklen_t length = sizeof name;
    told(call, getsockname(fd, NULL, &length)), tell(call, " ");
    told(call, splice(fd, NULL, fd, NULL, 1, SPLICE_F_NONBLOCK)), tell(call, " ");
    told(call, splice(fd, NULL, fd, NULL, 0, 0)), tell(call, " ");
    refuse_address(call, fd);
    refuse_control(call, fd);
    refuse_set(call, fd);
}

static void *close_by_thread(void *argument) {
    int fd = *(int *)argument;
    *(int *)argument = close(fd) == 0 ? 0 : -errno;
    return NULL;
}

static void close_call(struct call *call, int fd) {
    pthread_t thread;
    int result = fd;
    forget(word(call, 1));
    if (is(word(call, 2), "by-thread")) {
        if (pthread_create(&thread, NULL, close_by_thread, &result) != 0) die("pthread_create");
        pthread_join(thread, NULL);
        errno = -result;
        done(call, result);
    } else {
        done(call, close(fd));
    }
}

static void nonblock_call(struct call *call, int fd) {
    int on = is(word(call, 2), "on");
    if (is(word(call, 0), "fionbio")) {
        done(call, ioctl(fd, FIONBIO, &on));
        return;
    }
    int flags = fcntl(fd, F_GETFL);
    done(call, fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

static void flags_call(struct call *call, int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) told(call, flags);
    else tell(call, "%s", flags & O_NONBLOCK ? "nonblock" : "block");
}

static const struct option { const char *name; int level, option; } options[] = {
    {"reuseaddr", SOL_SOCKET, SO_REUSEADDR}, {"reuseport", SOL_SOCKET, SO_REUSEPORT},
    {"keepalive", SOL_SOCKET, SO_KEEPALIVE}, {"oobinline", SOL_SOCKET, SO_OOBINLINE},
    {"error", SOL_SOCKET, SO_ERROR},         {"type", SOL_SOCKET, SO_TYPE},
    {"domain", SOL_SOCKET, SO_DOMAIN},       {"protocol", SOL_SOCKET, SO_PROTOCOL},
    {"listens", SOL_SOCKET, SO_ACCEPTCONN},  {"rcvlowat", SOL_SOCKET, SO_RCVLOWAT},
    {"nodelay", IPPROTO_TCP, TCP_NODELAY},   {"cork", IPPROTO_TCP, TCP_CORK},
    {"user-timeout", IPPROTO_TCP, TCP_USER_TIMEOUT},
    {"tos", IPPROTO_IP, IP_TOS},             {"ttl", IPPROTO_IP, IP_TTL},
    {"tclass", IPPROTO_IPV6, IPV6_TCLASS},   {"hops", IPPROTO_IPV6, IPV6_UNICAST_HOPS},
    {"recvtos", IPPROTO_IP, IP_RECVTOS},     {"recvttl", IPPROTO_IP, IP_RECVTTL},
    {"pktinfo", IPPROTO_IP, IP_PKTINFO},     {"recvdst", IPPROTO_IP, IP_RECVORIGDSTADDR},
    {"recvtclass", IPPROTO_IPV6, IPV6_RECVTCLASS},
    {"recvhops", IPPROTO_IPV6, IPV6_RECVHOPLIMIT},
    {"pktinfo6", IPPROTO_IPV6, IPV6_RECVPKTINFO},
    {"recvdst6", IPPROTO_IPV6, 74 /* IPV6_RECVORIGDSTADDR */},
    {"timestamp", SOL_SOCKET, SO_TIMESTAMP}, {"timestampns", SOL_SOCKET, SO_TIMESTAMPNS},
    {"mtu-discover", IPPROTO_IP, IP_MTU_DISCOVER},
    {"segment", IPPROTO_UDP, UDP_SEGMENT},   {"gro", IPPROTO_UDP, UDP_GRO},
    {"v6only", IPPROTO_IPV6, IPV6_V6ONLY},   {"inq", IPPROTO_TCP, TCP_INQ},
    {NULL, 0, 0},
};

static const struct option *option_of(const char *name) {
    for (const struct option *one = options; one->name; one++)
        if (is(one->name, name)) return one;
    return NULL;
}

/* Seconds that a close waits, milliseconds that a call waits, or a number. */
static void set_call(struct call *call, int fd) {
    const char *name = word(call, 2);
    int value = number(call, 3);
    if (is(name, "linger")) {
        struct linger linger = {value >= 0, value};
        done(call, setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    } else if (is(name, "rcvtimeo") || is(name, "sndtimeo")) {
        struct timeval time = {value / 1000, value % 1000 * 1000};
        int option = is(name, "rcvtimeo") ? SO_RCVTIMEO : SO_SNDTIMEO;
        done(call, setsockopt(fd, SOL_SOCKET, option, &time, sizeof time));
    } else {
        const struct option *one = option_of(name);
        if (!one) die(name);
        done(call, setsockopt(fd, one->level, one->option, &value, sizeof value));
    }
}

static void get_call(struct call *call, int fd) {
    const struct option *one = option_of(word(call, 2));
    int value = 0;
    socklen_t bytes = sizeof value;
    if (is(word(call, 2), "rcvtimeo") || is(word(call, 2), "sndtimeo")) {
        struct timeval time;
        int option = is(word(call, 2), "rcvtimeo") ? SO_RCVTIMEO : SO_SNDTIMEO;
        bytes = sizeof time;
        if (done(call, getsockopt(fd, SOL_SOCKET, option, &time, &bytes)))
            tell(call, " %ld", time.tv_sec * 1000 + time.tv_usec / 1000);
        return;
    }
    if (is(word(call, 2), "waiting")) {
        struct tcp_info info = {0};
        bytes = sizeof info;
        if (done(call, getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes)))
            tell(call, " %u", info.tcpi_unacked);
        return;
    }
    if (!one) die(word(call, 2));
    if (!done(call, getsockopt(fd, one->level, one->option, &value, &bytes))) return;
    if (one->option == SO_ERROR && one->level == SOL_SOCKET && value)
        tell(call, " %s", strerrorname_np(value));
    else tell(call, " %d", value);
}

static void number_call(struct call *call, int fd) {
    int value = 0;
    int mark = is(word(call, 0), "atmark");
    if (done(call, ioctl(fd, mark ? SIOCATMARK : FIONREAD, &value))) tell(call, " %d", value);
}
