/* What programs may rely on, case by case. */
#include "cases.h"

static void case_echo(void) {
    int ends[2];
    char there[300000], back[sizeof there];
    pair(ends);
    OK(write(ends[0], "hello", 5) == 5 && read(ends[1], back, 100) == 5);
    OK(memcmp(back, "hello", 5) == 0);
    for (size_t i = 0; i < sizeof there; i++) there[i] = (char)(i * 7 + i / 251);
    pid_t child = fork();
    OK(child >= 0);
    if (child == 0) {
        char buffer[4096];
        size_t done = 0;
        while (done < sizeof there) {
            ssize_t count = recv(ends[1], buffer, sizeof buffer, 0);
            OK(count > 0 && send(ends[1], buffer, (size_t)count, 0) == count);
            done += (size_t)count;
        }
        _exit(0);
    }
    OK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    size_t sent = 0, got = 0;
    while (got < sizeof there) {
        short ready = (short)is_ready(ends[0], POLLIN | (sent < sizeof there ? POLLOUT : 0), 20000);
        OK(ready != 0);
        if (ready & POLLOUT) {
            ssize_t count = write(ends[0], there + sent, sizeof there - sent);
            OK(count > 0 || errno == EAGAIN);
            if (count > 0) sent += (size_t)count;
        }
        if (ready & POLLIN) {
            ssize_t count = read(ends[0], back + got, sizeof back - got);
            OK(count > 0 || errno == EAGAIN);
            if (count > 0) got += (size_t)count;
        }
    }
    OK(memcmp(there, back, sizeof there) == 0);
    int status;
    OK(waitpid(child, &status, 0) == child && status == 0);
}

static void case_names(void) {
    struct sockaddr_in own, peer;
    socklen_t bytes = sizeof own;
    int from = listener(), fd = dial();
    OK(getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && bytes == sizeof peer);
    OK(peer.sin_port == address.sin_port && peer.sin_addr.s_addr == address.sin_addr.s_addr);
    OK(getsockname(fd, (struct sockaddr *)&own, &bytes) == 0 && own.sin_port != 0);
    bytes = sizeof peer;
    int made = accept4(from, (struct sockaddr *)&peer, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    OK(made >= 0 && bytes == sizeof peer && peer.sin_family == AF_INET);
    OK(peer.sin_port == own.sin_port);
    OK(fcntl(made, F_GETFL) & O_NONBLOCK && fcntl(made, F_GETFD) == FD_CLOEXEC);
    char small[6];
    bytes = sizeof small;
    OK(getpeername(made, (struct sockaddr *)small, &bytes) == 0 && bytes == sizeof peer);
    int unconnected = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(getpeername(unconnected, (struct sockaddr *)&peer, &bytes), ENOTCONN);
    FAILS(accept4(from, NULL, NULL, 0x40), EINVAL);
    FAILS(accept(made, NULL, NULL), EINVAL);
    FAILS(connect(fd, (struct sockaddr *)&address, sizeof address), EISCONN);
    FAILS(listen(fd, 5), EINVAL);
    int value, domain;
    bytes = sizeof value;
    OK(getsockopt(made, SOL_SOCKET, SO_TYPE, &value, &bytes) == 0 && value == SOCK_STREAM);
    OK(getsockopt(made, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_INET);
    OK(getsockopt(from, SOL_SOCKET, SO_ACCEPTCONN, &value, &bytes) == 0 && value == 1);
}

static void case_nonblocking_connect(void) {
    int from = listener(), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), value = -1;
    socklen_t bytes = sizeof value;
    int result = connect(fd, (struct sockaddr *)&address, sizeof address);
    OK(result == -1 && errno == EINPROGRESS);
    OK(is_ready(fd, POLLOUT, 5000) == POLLOUT);
    OK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &bytes) == 0 && value == 0);
    OK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    FAILS(connect(fd, (struct sockaddr *)&address, sizeof address), EISCONN);
    FAILS(read(fd, &value, 1), EAGAIN);
    (void)from;
}

static void case_refused(void) {
    struct sockaddr_in dead = {.sin_family = AF_INET};
    socklen_t bytes = sizeof dead;
    dead.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), deaf = socket(AF_INET, SOCK_STREAM, 0);
    OK(bind(deaf, (struct sockaddr *)&dead, sizeof dead) == 0);
    OK(getsockname(deaf, (struct sockaddr *)&dead, &bytes) == 0);
    FAILS(connect(fd, (struct sockaddr *)&dead, sizeof dead), ECONNREFUSED);
    listener();
    OK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
}

static void case_half_close(void) {
    int ends[2];
    char byte;
    pair(ends);
    OK(write(ends[0], "a", 1) == 1 && shutdown(ends[0], SHUT_WR) == 0);
    OK(read(ends[1], &byte, 1) == 1 && read(ends[1], &byte, 1) == 0);
    OK(is_ready(ends[1], POLLIN | POLLRDHUP | POLLOUT, 5000) == (POLLIN | POLLRDHUP | POLLOUT));
    OK(write(ends[1], "b", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'b');
    OK(shutdown(ends[1], SHUT_WR) == 0);
    OK(read(ends[0], &byte, 1) == 0);
    OK(is_ready(ends[0], 0, 5000) == POLLHUP);
}

static void case_broken_pipe(void) {
    int ends[2];
    pair(ends);
    handle(SIGPIPE, 0);
    OK(shutdown(ends[0], SHUT_WR) == 0);
    FAILS(send(ends[0], "x", 1, MSG_NOSIGNAL), EPIPE);
    OK(handled == 0);
    FAILS(write(ends[0], "x", 1), EPIPE);
    OK(handled == SIGPIPE);
}

static void case_flags(void) {
    int ends[2], there = 0;
    char buffer[16] = "";
    pair(ends);
    FAILS(recv(ends[1], buffer, 1, MSG_DONTWAIT), EAGAIN);
    OK(send(ends[0], "abcdef", 6, MSG_MORE) == 6 && send(ends[0], "gh", 2, 0) == 2);
    OK(is_ready(ends[1], POLLIN, 5000) == POLLIN);
    OK(recv(ends[1], buffer, 3, MSG_PEEK) == 3 && memcmp(buffer, "abc", 3) == 0);
    OK(recv(ends[1], buffer, 8, MSG_PEEK | MSG_WAITALL) == 8);
    OK(ioctl(ends[1], FIONREAD, &there) == 0 && there == 8);
    OK(recv(ends[1], NULL, 2, MSG_TRUNC) == 2);
    OK(recv(ends[1], buffer, 6, MSG_WAITALL) == 6 && memcmp(buffer, "cdefgh", 6) == 0);
    OK(recv(ends[1], buffer, 0, MSG_DONTWAIT) <= 0);
    int yes = 1;
    OK(ioctl(ends[1], FIONBIO, &yes) == 0);
    FAILS(read(ends[1], buffer, 1), EAGAIN);
    OK(fcntl(ends[1], F_GETFL) & O_NONBLOCK);
}

static void *slow_writer(void *argument) {
    int fd = *(int *)argument;
    for (int i = 0; i < 4; i++) {
        milliseconds(20);
        OK(write(fd, "wxyz", 4) == 4);
    }
    return NULL;
}

static void case_waitall(void) {
    int ends[2];
    char buffer[16];
    pair(ends);
    pthread_t thread = later(slow_writer, &ends[0]);
    OK(recv(ends[1], buffer, 16, MSG_WAITALL) == 16);
    OK(pthread_join(thread, NULL) == 0);
    int low = 8;
    OK(setsockopt(ends[1], SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low) == 0);
    thread = later(slow_writer, &ends[0]);
    OK(read(ends[1], buffer, 16) >= 8);
    OK(pthread_join(thread, NULL) == 0);
}

static void case_bad_addresses(void) {
    int ends[2];
    char good[4] = "abc";
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    OK(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
    pair(ends);
    FAILS(write(ends[0], nowhere, 4), EFAULT);
    FAILS(send(ends[0], page + 4096, 100, 0), EFAULT);
    FAILS(writev(ends[0], nowhere, 1), EFAULT);
    OK(write(ends[0], good, 3) == 3 && is_ready(ends[1], POLLIN, 5000) == POLLIN);
    FAILS(read(ends[1], nowhere, 4), EFAULT);
    FAILS(readv(ends[1], nowhere, 1), EFAULT);
    FAILS(recvmsg(ends[1], nowhere, 0), EFAULT);
    struct iovec parts[2] = {{good, 2}, {nowhere, 2}};
    ssize_t count = readv(ends[1], parts, 2);
    OK(count == 2 || (count == -1 && errno == EFAULT));
    struct sockaddr_in name;
    FAILS(getpeername(ends[0], (struct sockaddr *)&name, nowhere), EFAULT);
    FAILS(getsockopt(ends[0], IPPROTO_TCP, TCP_INFO, &name, nowhere), EFAULT);
    FAILS(connect(socket(AF_INET, SOCK_STREAM, 0), nowhere, sizeof name), EFAULT);
}

static void case_lists(void) {
    int ends[2];
    char a[3], b[4];
    pair(ends);
    struct iovec out[3] = {{"ab", 2}, {NULL, 0}, {"cdefg", 5}};
    OK(writev(ends[0], out, 3) == 7 && is_ready(ends[1], POLLIN, 5000) == POLLIN);
    struct iovec in[2] = {{a, 3}, {b, 4}};
    OK(readv(ends[1], in, 2) == 7 && memcmp(a, "abc", 3) == 0 && memcmp(b, "defg", 4) == 0);
    struct iovec many[PARTS_MAX + 1];
    memset(many, 0, sizeof many);
    FAILS(writev(ends[0], many, PARTS_MAX + 1), EINVAL);
    volatile int negative = -1;
    FAILS(writev(ends[0], out, negative), EINVAL);
    struct msghdr message = {.msg_iov = many, .msg_iovlen = PARTS_MAX + 1};
    FAILS(sendmsg(ends[0], &message, 0), EMSGSIZE);
    message.msg_iov = out, message.msg_iovlen = 3;
    OK(sendmsg(ends[0], &message, 0) == 7);
    char control[64], name[32];
    message = (struct msghdr){.msg_iov = in, .msg_iovlen = 2, .msg_control = control,
        .msg_controllen = sizeof control, .msg_name = name, .msg_namelen = sizeof name};
    OK(recvmsg(ends[1], &message, MSG_WAITALL) == 7 && message.msg_controllen == 0);
    OK(message.msg_namelen == 0 && message.msg_flags == 0);
    struct mmsghdr two[2] = {{.msg_hdr = {.msg_iov = out, .msg_iovlen = 1}},
                             {.msg_hdr = {.msg_iov = out + 2, .msg_iovlen = 1}}};
    OK(sendmmsg(ends[0], two, 2, 0) == 2 && two[0].msg_len == 2 && two[1].msg_len == 5);
    two[0].msg_hdr = (struct msghdr){.msg_iov = in, .msg_iovlen = 1};
    two[1].msg_hdr = (struct msghdr){.msg_iov = in + 1, .msg_iovlen = 1};
    OK(is_ready(ends[1], POLLIN, 5000) == POLLIN);
    OK(recvmmsg(ends[1], two, 2, MSG_WAITALL, NULL) == 2 && two[0].msg_len == 3 && two[1].msg_len == 4);
}

static void case_dup(void) {
    int ends[2];
    char byte;
    pair(ends);
    int other = dup(ends[0]), high = fcntl(ends[0], F_DUPFD_CLOEXEC, 200);
    OK(other >= 0 && high >= 200 && fcntl(high, F_GETFD) == FD_CLOEXEC);
    OK(fcntl(other, F_SETFL, O_NONBLOCK) == 0 && fcntl(ends[0], F_GETFL) & O_NONBLOCK);
    FAILS(read(high, &byte, 1), EAGAIN);
    OK(fcntl(high, F_SETFL, 0) == 0);
    OK(close(ends[0]) == 0 && close(high) == 0);
    OK(write(other, "x", 1) == 1 && read(ends[1], &byte, 1) == 1 && byte == 'x');
    OK(dup2(other, 150) == 150 && close(other) == 0);
    OK(write(150, "y", 1) == 1 && read(ends[1], &byte, 1) == 1 && byte == 'y');
    int null = open("/dev/null", O_RDWR);
    OK(dup2(null, 150) == 150 && write(150, "z", 1) == 1);
    OK(read(ends[1], &byte, 1) == 0);
    FAILS(read(ends[0], &byte, 1), EBADF);
    FAILS(dup2(ends[1], -1), EBADF);
    FAILS(dup2(999, ends[1]), EBADF);
    FAILS(dup3(ends[1], ends[1], 0), EINVAL);
    OK(dup2(ends[1], ends[1]) == ends[1]);
    OK(read(ends[1], &byte, 1) == 0);
}

static struct epoll_event seen[64];
static int waited(int set, int timeout) { return epoll_wait(set, seen, 64, timeout); }

static void control(int set, int operation, int fd, unsigned events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    OK(epoll_ctl(set, operation, fd, &event) == 0);
}

static void case_epoll(void) {
    int ends[2], set = epoll_create1(EPOLL_CLOEXEC);
    char buffer[16];
    pair(ends);
    control(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
    struct epoll_event event = {.events = EPOLLIN};
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event), EEXIST);
    FAILS(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event), ENOENT);
    FAILS(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL), ENOENT);
    FAILS(epoll_ctl(ends[0], EPOLL_CTL_ADD, ends[1], &event), EINVAL);
    FAILS(epoll_wait(set, seen, 0, 0), EINVAL);
    OK(waited(set, 0) == 0 && waited(set, 10) == 0);
    OK(write(ends[0], "ab", 2) == 2);
    for (int i = 0; i < 3; i++)
        OK(waited(set, 5000) == 1 && seen[0].events == EPOLLIN && seen[0].data.fd == ends[1]);
    FAILS(epoll_wait(set, nowhere, 8, 1000), EFAULT);
    OK(read(ends[1], buffer, 16) == 2 && waited(set, 0) == 0);
    control(set, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLET);
    OK(waited(set, 0) == 0 && write(ends[0], "ab", 2) == 2);
    OK(waited(set, 5000) == 1 && waited(set, 20) == 0);
    OK(write(ends[0], "cd", 2) == 2 && waited(set, 5000) == 1);
    control(set, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLET);
    OK(waited(set, 5000) == 1 && waited(set, 0) == 0);
    control(set, EPOLL_CTL_MOD, ends[1], EPOLLIN | EPOLLOUT | EPOLLONESHOT);
    OK(waited(set, 5000) == 1 && seen[0].events == (EPOLLIN | EPOLLOUT) && waited(set, 20) == 0);
    control(set, EPOLL_CTL_MOD, ends[1], EPOLLRDHUP);
    OK(waited(set, 0) == 0 && shutdown(ends[0], SHUT_WR) == 0);
    OK(waited(set, 5000) == 1 && seen[0].events == EPOLLRDHUP);
    OK(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL) == 0 && waited(set, 0) == 0);
    control(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
    int other = dup(ends[1]);
    OK(close(ends[1]) == 0 && waited(set, 1000) == 1 && seen[0].data.fd == ends[1]);
    OK(close(other) == 0 && waited(set, 20) == 0);
}

static void *slow_epoll_writer(void *argument) {
    milliseconds(50);
    OK(write(*(int *)argument, "x", 1) == 1);
    return NULL;
}

static void case_epoll_sleeps(void) {
    int ends[2], set = epoll_create1(0);
    char byte;
    pair(ends);
    control(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
    for (int i = 0; i < 3; i++) {
        pthread_t thread = later(slow_epoll_writer, &ends[0]);
        OK(waited(set, 10000) == 1 && seen[0].data.fd == ends[1]);
        OK(read(ends[1], &byte, 1) == 1 && pthread_join(thread, NULL) == 0);
    }
}

static void case_epoll_mixed(void) {
    int ends[2], set = epoll_create1(0), count = eventfd(0, EFD_NONBLOCK), pipes[2];
    unsigned long number = 1;
    char byte;
    pair(ends);
    OK(pipe(pipes) == 0);
    control(set, EPOLL_CTL_ADD, pipes[0], EPOLLIN);
    control(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
    control(set, EPOLL_CTL_ADD, count, EPOLLIN);
    OK(write(ends[0], "x", 1) == 1 && waited(set, 5000) >= 1);
    OK(write(pipes[1], "x", 1) == 1 && write(count, &number, sizeof number) == 8);
    /* One event at a time, of which a socket always has one: the others come too. */
    int found = 0;
    for (int i = 0; i < 200 && found != 7; i++) {
        OK(epoll_wait(set, seen, 1, 5000) == 1);
        found |= seen[0].data.fd == ends[1] ? 1 : seen[0].data.fd == count ? 2 : 4;
    }
    OK(found == 7);
    OK(read(ends[1], &byte, 1) == 1 && read(pipes[0], &byte, 1) == 1);
    OK(waited(set, 5000) == 1 && seen[0].data.fd == count);
    OK(read(count, &number, sizeof number) == 8 && waited(set, 20) == 0);
    pthread_t thread = later(slow_epoll_writer, &pipes[1]);
    OK(waited(set, 10000) == 1 && seen[0].data.fd == pipes[0]);
    OK(pthread_join(thread, NULL) == 0);
}

static void case_epoll_in_epoll(void) {
    int ends[2], inner = epoll_create1(0), outer = epoll_create1(0);
    char byte;
    pair(ends);
    control(inner, EPOLL_CTL_ADD, ends[1], EPOLLIN);
    control(outer, EPOLL_CTL_ADD, inner, EPOLLIN);
    OK(waited(outer, 0) == 0 && is_ready(inner, POLLIN, 0) == 0);
    for (int i = 0; i < 3; i++) {
        pthread_t thread = later(slow_epoll_writer, &ends[0]);
        OK(waited(outer, 10000) == 1 && seen[0].data.fd == inner);
        OK(is_ready(inner, POLLIN, 0) == POLLIN);
        OK(waited(inner, 0) == 1 && seen[0].data.fd == ends[1]);
        OK(waited(outer, 0) == 1);
        OK(read(ends[1], &byte, 1) == 1 && waited(inner, 0) == 0);
        OK(waited(outer, 20) == 0);
        OK(pthread_join(thread, NULL) == 0);
    }
}

static void case_epoll_many(void) {
    enum { PAIRS = 100 };
    int ends[PAIRS][2], set = epoll_create1(0), from = listener();
    for (int i = 0; i < PAIRS; i++) {
        ends[i][0] = dial();
        OK((ends[i][1] = accept(from, NULL, NULL)) >= 0);
        control(set, EPOLL_CTL_ADD, ends[i][1], EPOLLIN);
        OK(write(ends[i][0], "x", 1) == 1);
    }
    /* Few at a time: all of them have their turn. */
    char told[4096] = "";
    int left = PAIRS;
    while (left > 0) {
        int count = epoll_wait(set, seen, 7, 5000);
        OK(count > 0);
        for (int k = 0; k < count; k++)
            if (!told[seen[k].data.fd]++) left--;
    }
    for (int i = 0; i < PAIRS; i++) OK(close(ends[i][i % 2]) == 0);
    for (int i = 1; i < PAIRS; i += 2) OK(write(ends[i][0], "y", 1) != 0 || 1);
    int count;
    for (int i = 0; i < 50 && (count = waited(set, 0)) > 0; i++)
        for (int k = 0; k < count; k++) OK(seen[k].data.fd >= 0);
}

static void *waiter(void *argument) {
    struct epoll_event event;
    OK(epoll_wait(*(int *)argument, &event, 1, 10000) == 1);
    char byte;
    OK(read(event.data.fd, &byte, 1) == 1);
    return NULL;
}

static void case_epoll_threads(void) {
    int a[2], b[2], set = epoll_create1(0);
    pair(a);
    pair(b);
    control(set, EPOLL_CTL_ADD, a[1], EPOLLIN | EPOLLONESHOT);
    control(set, EPOLL_CTL_ADD, b[1], EPOLLIN | EPOLLONESHOT);
    pthread_t first = later(waiter, &set), second = later(waiter, &set);
    milliseconds(50);
    OK(write(a[0], "x", 1) == 1 && write(b[0], "x", 1) == 1);
    OK(pthread_join(first, NULL) == 0 && pthread_join(second, NULL) == 0);
}

static void case_epoll_add_wakes(void) {
    int ends[2], set = epoll_create1(0);
    pair(ends);
    control(set, EPOLL_CTL_ADD, ends[0], EPOLLIN);
    pthread_t thread = later(waiter, &set);
    milliseconds(50);
    OK(write(ends[0], "x", 1) == 1 && is_ready(ends[1], POLLIN, 5000) == POLLIN);
    control(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
    OK(pthread_join(thread, NULL) == 0);
}

static void case_poll(void) {
    int ends[2], pipes[2];
    pair(ends);
    OK(pipe(pipes) == 0);
    struct pollfd places[2000];
    for (int i = 0; i < 2000; i++) places[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    OK(poll(places, 2000, 0) == 0);
    places[0].fd = pipes[0], places[7].fd = ends[1], places[9].fd = 987;
    places[1900] = (struct pollfd){.fd = ends[0], .events = POLLOUT};
    OK(poll(places, 2000, 0) == 2);
    OK(places[9].revents == POLLNVAL && places[1900].revents == POLLOUT && places[7].revents == 0);
    OK(write(ends[0], "x", 1) == 1 && write(pipes[1], "x", 1) == 1);
    OK(is_ready(ends[1], POLLIN, 5000) == POLLIN);
    OK(poll(places, 2000, -1) == 4 && places[0].revents == POLLIN && places[7].revents == POLLIN);
    FAILS(poll(nowhere, 1, 0), EFAULT);
    volatile nfds_t far_too_many = 1U << 30;
    FAILS(poll(places, far_too_many, 0), EINVAL);
    struct timespec little = {0, 20000000};
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    OK(ppoll(&one, 1, &little, NULL) == 0);
    pthread_t thread = later(slow_epoll_writer, &ends[1]);
    OK(poll(&one, 1, 10000) == 1 && one.revents == POLLIN && pthread_join(thread, NULL) == 0);
}

static void case_select(void) {
    int ends[2];
    char byte;
    fd_set in, out;
    struct timeval little = {0, 20000};
    pair(ends);
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(ends[1], &in), FD_SET(ends[0], &out);
    OK(select(ends[1] + 1, &in, &out, NULL, &little) == 1);
    OK(!FD_ISSET(ends[1], &in) && FD_ISSET(ends[0], &out));
    FD_SET(ends[1], &in);
    little = (struct timeval){0, 20000};
    OK(select(ends[1] + 1, &in, NULL, NULL, &little) == 0 && little.tv_usec == 0);
    FD_SET(ends[1], &in);
    pthread_t thread = later(slow_epoll_writer, &ends[0]);
    OK(select(ends[1] + 1, &in, NULL, NULL, NULL) == 1 && FD_ISSET(ends[1], &in));
    OK(read(ends[1], &byte, 1) == 1 && pthread_join(thread, NULL) == 0);
    FD_ZERO(&in);
    FD_SET(ends[1], &in), FD_SET(60, &in);
    FAILS(select(61, &in, NULL, NULL, NULL), EBADF);
}

static void case_signal_mask(void) {
    int ends[2], set = epoll_create1(0);
    sigset_t blocked, none;
    pair(ends);
    control(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
    handle(SIGUSR1, SA_RESTART);
    sigemptyset(&none), sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    OK(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
    OK(raise(SIGUSR1) == 0 && handled == 0);
    FAILS(epoll_pwait(set, seen, 8, 5000, &none), EINTR);
    OK(handled == SIGUSR1);
    handled = 0;
    OK(raise(SIGUSR1) == 0 && handled == 0);
    struct pollfd one = {.fd = ends[1], .events = POLLIN};
    FAILS(ppoll(&one, 1, NULL, &none), EINTR);
    OK(handled == SIGUSR1);
    handled = 0;
    OK(raise(SIGUSR1) == 0);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(ends[1], &in);
    FAILS(pselect(ends[1] + 1, &in, NULL, NULL, NULL, &none), EINTR);
    OK(handled == SIGUSR1);
}

static pthread_t main_thread;
static int wake_fd;
static atomic_int is_interrupted;

/* Until the call has ended: one signal comes while it waits, however late that begins. */
static void *interrupter(void *unused) {
    (void)unused;
    while (!is_interrupted) {
        milliseconds(50);
        pthread_kill(main_thread, SIGUSR1);
    }
    return NULL;
}

static void *interrupter_that_writes(void *unused) {
    (void)unused;
    milliseconds(50);
    pthread_kill(main_thread, SIGUSR1);
    milliseconds(50);
    OK(write(wake_fd, "x", 1) == 1);
    return NULL;
}

#define INTERRUPTED(call)                        \
    do {                                         \
        is_interrupted = 0;                      \
        pthread_t one = later(interrupter, NULL); \
        FAILS(call, EINTR);                      \
        is_interrupted = 1;                      \
        OK(pthread_join(one, NULL) == 0);        \
    } while (0)

static void case_interrupted(void) {
    int ends[2];
    char byte;
    pair(ends);
    main_thread = pthread_self();
    wake_fd = ends[0];
    handle(SIGUSR1, SA_RESTART);
    pthread_t thread = later(interrupter_that_writes, NULL);
    OK(read(ends[1], &byte, 1) == 1 && handled == SIGUSR1 && pthread_join(thread, NULL) == 0);
    handle(SIGUSR1, 0);
    INTERRUPTED(read(ends[1], &byte, 1));
    struct timeval limit = {0, 30000};
    OK(setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    FAILS(read(ends[1], &byte, 1), EAGAIN);
    limit.tv_sec = 20;
    OK(setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    handle(SIGUSR1, SA_RESTART);
    INTERRUPTED(read(ends[1], &byte, 1));
    int from = listener();
    handle(SIGUSR1, 0);
    INTERRUPTED(accept(from, NULL, NULL));
}

static void case_fork(void) {
    int ends[2], status;
    char byte;
    pair(ends);
    pid_t child = fork();
    if (child == 0) {
        OK(close(ends[0]) == 0);
        OK(read(ends[1], &byte, 1) == 1 && byte == 'a' && write(ends[1], "b", 1) == 1);
        OK(close(ends[1]) == 0);
        _exit(0);
    }
    OK(write(ends[0], "a", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'b');
    OK(waitpid(child, &status, 0) == child && status == 0);
    /* The child's closing ended nothing. */
    OK(write(ends[1], "c", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'c');
}

static void case_fork_accepts(void) {
    int from = listener(), status;
    char byte;
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        if ((children[i] = fork()) == 0) {
            int set = epoll_create1(0);
            control(set, EPOLL_CTL_ADD, from, EPOLLIN | EPOLLEXCLUSIVE);
            OK(waited(set, 20000) == 1 && fcntl(from, F_SETFL, O_NONBLOCK) == 0);
            int fd;
            while ((fd = accept(from, NULL, NULL)) < 0) {
                OK(errno == EAGAIN && waited(set, 20000) == 1);
            }
            OK(fcntl(fd, F_SETFL, 0) == 0);
            OK(read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1);
            _exit(0);
        }
    }
    int fds[3];
    for (int i = 0; i < 3; i++) fds[i] = dial();
    for (int i = 0; i < 3; i++) OK(write(fds[i], "x", 1) == 1);
    for (int i = 0; i < 3; i++) OK(read(fds[i], &byte, 1) == 1);
    for (int i = 0; i < 3; i++) OK(waitpid(children[i], &status, 0) > 0 && status == 0);
}

static void case_children_that_close_everything(void) {
    int ends[2], status;
    char byte;
    pair(ends);
    pid_t child = vfork();
    if (child == 0) {
        for (int fd = 3; fd < 1100; fd++) close(fd);
        syscall(SYS_close_range, 3, ~0U, 0);
        _exit(0);
    }
    OK(waitpid(child, &status, 0) == child && status == 0);
    OK(write(ends[0], "a", 1) == 1 && read(ends[1], &byte, 1) == 1 && byte == 'a');
    posix_spawn_file_actions_t actions;
    OK(posix_spawn_file_actions_init(&actions) == 0);
    OK(posix_spawn_file_actions_addclosefrom_np(&actions, 3) == 0);
    char *arguments[] = {"true", NULL};
    OK(posix_spawnp(&child, "true", &actions, NULL, arguments, environ) == 0);
    OK(waitpid(child, &status, 0) == child && status == 0);
    OK(system("true") == 0);
    OK(write(ends[1], "b", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'b');
}

static void case_close_everything(void) {
    int ends[2];
    char byte;
    pair(ends);
    int set = epoll_create1(0);
    control(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
    OK(waited(set, 10) == 0 && is_ready(ends[1], POLLIN, 10) == 0);
    for (int fd = 3; fd < 1100; fd++) close(fd);
    pair(ends);
    /* What the library keeps for itself takes no small numbers. */
    OK(ends[0] < 16 && ends[1] < 16);
    OK(write(ends[0], "a", 1) == 1 && read(ends[1], &byte, 1) == 1 && byte == 'a');
    OK(close_range(3, ~0U, 0) == 0);
    pair(ends);
    pthread_t thread = later(slow_epoll_writer, &ends[0]);
    OK(is_ready(ends[1], POLLIN, 10000) == POLLIN && read(ends[1], &byte, 1) == 1);
    OK(pthread_join(thread, NULL) == 0);
    OK(write(ends[0], "a", 1) == 1 && read(ends[1], &byte, 1) == 1 && byte == 'a');
    closefrom(3);
    pair(ends);
    OK(write(ends[0], "a", 1) == 1 && read(ends[1], &byte, 1) == 1 && byte == 'a');
}

static int half_closed;
static void *pre_closer(void *argument) {
    milliseconds(50);
    OK(dup2(half_closed, *(int *)argument) >= 0);
    pthread_kill(main_thread, SIGUSR1);
    return NULL;
}

/* As java closes a socket that another thread reads. */
static void case_replaced_while_reading(void) {
    int ends[2], unix_ends[2];
    char byte;
    pair(ends);
    OK(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_ends) == 0 && close(unix_ends[1]) == 0);
    half_closed = unix_ends[0];
    main_thread = pthread_self();
    handle(SIGUSR1, 0);
    pthread_t thread = later(pre_closer, &ends[1]);
    ssize_t count = read(ends[1], &byte, 1);
    /* What it read is closed, its number another file's: it ends, and leaves that file alone. */
    OK(count == 0 || (count == -1 && (errno == EINTR || errno == EBADF)));
    OK(pthread_join(thread, NULL) == 0);
    OK(read(ends[1], &byte, 1) == 0);
    int from = listener();
    thread = later(pre_closer, &from);
    FAILS(accept(from, NULL, NULL), errno == EINTR || errno == EBADF ? errno : EINVAL);
    OK(pthread_join(thread, NULL) == 0);
}

static void *shutter(void *argument) {
    milliseconds(50);
    OK(shutdown(*(int *)argument, SHUT_RDWR) == 0);
    return NULL;
}

static void case_shutdown_wakes(void) {
    int ends[2], from = listener();
    char byte;
    pthread_t thread = later(shutter, &from);
    FAILS(accept(from, NULL, NULL), EINVAL);
    OK(pthread_join(thread, NULL) == 0);
    pair(ends);
    thread = later(shutter, &ends[0]);
    OK(read(ends[0], &byte, 1) == 0 && pthread_join(thread, NULL) == 0);
    OK(read(ends[1], &byte, 1) == 0);
}

static void case_no_more_descriptors(void) {
    int from = listener(), fd = dial();
    char byte;
    OK(is_ready(from, POLLIN, 5000) == POLLIN);
    struct rlimit old, low;
    OK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    low = old;
    int next = dup(fd);
    close(next);
    low.rlim_cur = (rlim_t)next;
    OK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    FAILS(accept(from, NULL, NULL), EMFILE);
    OK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    int made = accept(from, NULL, NULL);
    OK(made >= 0 && write(made, "x", 1) == 1 && read(fd, &byte, 1) == 1);
}

static void case_sendfile(void) {
    int ends[2], file = memfd_create("file", 0);
    static char there[200000], back[200000];
    for (size_t i = 0; i < sizeof there; i++) there[i] = (char)(i * 13);
    OK(write(file, there, sizeof there) == sizeof there);
    pair(ends);
    off_t at = 100;
    OK(sendfile(ends[0], file, &at, 1000) == 1000 && at == 1100);
    read_all(ends[1], back, 1000);
    OK(memcmp(back, there + 100, 1000) == 0);
    OK(lseek(file, 0, SEEK_CUR) == sizeof there && sendfile(ends[0], file, NULL, 10) == 0);
    OK(lseek(file, 199990, SEEK_SET) == 199990 && sendfile(ends[0], file, NULL, 100) == 10);
    read_all(ends[1], back, 10);
    OK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    size_t done = 0;
    at = 0;
    while (done < sizeof there) {
        ssize_t count = 1;
        if (at < (off_t)sizeof there) count = sendfile(ends[0], file, &at, sizeof there - (size_t)at);
        OK(count > 0 || errno == EAGAIN);
        count = recv(ends[1], back + done, sizeof back - done, MSG_DONTWAIT);
        if (count > 0) done += (size_t)count;
    }
    OK(memcmp(there, back, sizeof there) == 0);
    FAILS(sendfile(ends[0], 987, NULL, 10), EBADF);
}

static void case_splice(void) {
    int ends[2], pipes[2];
    char buffer[16];
    pair(ends);
    OK(pipe(pipes) == 0 && write(pipes[1], "abcdef", 6) == 6);
    OK(splice(pipes[0], NULL, ends[0], NULL, 100, 0) == 6);
    OK(is_ready(ends[1], POLLIN, 5000) == POLLIN);
    OK(splice(ends[1], NULL, pipes[1], NULL, 4, 0) == 4);
    OK(read(pipes[0], buffer, 16) == 4 && memcmp(buffer, "abcd", 4) == 0);
    OK(read(ends[1], buffer, 16) == 2);
    OK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    FAILS(splice(ends[1], NULL, pipes[1], NULL, 4, 0), EAGAIN);
    FAILS(splice(pipes[0], NULL, ends[0], NULL, 4, SPLICE_F_NONBLOCK), EAGAIN);
    OK(shutdown(ends[0], SHUT_WR) == 0 && is_ready(ends[1], POLLIN, 5000) & POLLIN);
    OK(splice(ends[1], NULL, pipes[1], NULL, 4, 0) == 0);
}

static void case_options(void) {
    int from = listener(), yes = 1, value = 0, big = 100;
    socklen_t bytes = sizeof value;
    OK(setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0);
    OK(setsockopt(from, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes) == 0);
    OK(setsockopt(from, IPPROTO_TCP, TCP_KEEPIDLE, &big, sizeof big) == 0);
    int fd = dial(), made = accept(from, NULL, NULL);
    OK(getsockopt(made, IPPROTO_TCP, TCP_NODELAY, &value, &bytes) == 0 && value != 0);
    OK(getsockopt(made, IPPROTO_TCP, TCP_KEEPIDLE, &value, &bytes) == 0 && value == 100);
    OK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &bytes) == 0 && value == 0);
    OK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0);
    OK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &bytes) == 0 && value != 0);
    FAILS(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, 1), EINVAL);
    FAILS(setsockopt(fd, IPPROTO_TCP, 12345, &value, sizeof value), ENOPROTOOPT);
    if (getenv("ACCELERATED") != NULL) {
        /* Whoever had it would wait for news of its buffers once its socket is not the kernel's. */
        int fresh = socket(AF_INET, SOCK_STREAM, 0);
        FAILS(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &yes, sizeof yes), EOPNOTSUPP);
        FAILS(setsockopt(fresh, SOL_SOCKET, SO_ZEROCOPY, &yes, sizeof yes), EOPNOTSUPP);
        OK(close(fresh) == 0);
    }
    struct tcp_info info;
    bytes = sizeof info;
    OK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 && bytes == sizeof info);
    OK(info.tcpi_state == TCP_ESTABLISHED);
    bytes = 1;
    OK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 && bytes == 1);
    struct linger lingers = {1, 5}, found = {0, 0};
    OK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lingers, sizeof lingers) == 0);
    bytes = sizeof found;
    OK(getsockopt(fd, SOL_SOCKET, SO_LINGER, &found, &bytes) == 0 && found.l_linger == 5);
    OK(ioctl(fd, TIOCOUTQ, &value) == 0 && value == 0);
    FAILS(ioctl(from, FIONREAD, &value), EINVAL);
    OK(ioctl(fd, SIOCATMARK, &value) == 0);
}

static void case_by_number(void) {
    int ends[2];
    char buffer[8];
    pair(ends);
    OK(syscall(SYS_write, ends[0], "abc", 3) == 3);
    OK(syscall(SYS_recvfrom, ends[1], buffer, 8, 0, NULL, NULL) == 3);
    int other = (int)syscall(SYS_dup, ends[0]);
    OK(other >= 0 && syscall(SYS_close, ends[0]) == 0);
    OK(syscall(SYS_sendto, other, "x", 1, 0, NULL, 0) == 1);
    OK(syscall(SYS_read, ends[1], buffer, 8) == 1);
    errno = 0;
    OK(syscall(SYS_close, -1) == -1 && errno == EBADF);
    OK(syscall(SYS_getpid) == getpid());
}

static void case_streams(void) {
    int ends[2];
    char line[64];
    pair(ends);
    FILE *out = fdopen(ends[0], "w"), *in = fdopen(ends[1], "r");
    OK(out != NULL && in != NULL);
    OK(fprintf(out, "number %d\n", 42) == 10 && fflush(out) == 0);
    OK(fgets(line, sizeof line, in) != NULL && strcmp(line, "number 42\n") == 0);
    OK(fclose(out) == 0 && fgets(line, sizeof line, in) == NULL && feof(in));
    OK(fclose(in) == 0);
    pair(ends);
    OK(dprintf(ends[0], "%s-%d-%.1f", "a", 7, 2.5) == 7);
    OK(read(ends[1], line, sizeof line) == 7 && memcmp(line, "a-7-2.5", 7) == 0);
}

static void case_mapped(void) {
    int from = listener(), fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = address.sin_port}, name;
    socklen_t bytes = sizeof name;
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr);
    OK(connect(fd, (struct sockaddr *)&mapped, sizeof mapped) == 0);
    OK(getpeername(fd, (struct sockaddr *)&name, &bytes) == 0 && bytes == sizeof name);
    OK(IN6_IS_ADDR_V4MAPPED(&name.sin6_addr) && name.sin6_port == mapped.sin6_port);
    OK(getsockname(fd, (struct sockaddr *)&name, &bytes) == 0);
    OK(name.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&name.sin6_addr));
    struct sockaddr_in peer;
    bytes = sizeof peer;
    OK(accept(from, (struct sockaddr *)&peer, &bytes) >= 0);
    OK(bytes == sizeof peer && peer.sin_family == AF_INET && peer.sin_port == name.sin6_port);
    int old = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(connect(old, (struct sockaddr *)&mapped, sizeof mapped), EAFNOSUPPORT);
}

static void *canceled(void *argument) {
    char byte;
    return (void *)read(*(int *)argument, &byte, 1);
}

static void case_canceled(void) {
    int ends[2];
    char byte;
    void *result;
    pair(ends);
    pthread_t thread = later(canceled, &ends[1]);
    milliseconds(50);
    OK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
    OK(result == PTHREAD_CANCELED);
    OK(write(ends[0], "x", 1) == 1 && read(ends[1], &byte, 1) == 1);
}

static int handler_fd;
static void closing_handler(int signal) { (void)signal; close(handler_fd); }

static void case_close_in_a_handler(void) {
    int ends[2], set = epoll_create1(0);
    pair(ends);
    handler_fd = ends[1];
    control(set, EPOLL_CTL_ADD, ends[1], EPOLLIN);
    struct sigaction action = {.sa_handler = closing_handler};
    OK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval soon = {{0, 0}, {0, 30000}};
    OK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    int result;
    do result = waited(set, 1000);
    while (result < 0 && errno == EINTR);
    OK(result == 0);
    char byte;
    FAILS(read(ends[1], &byte, 1), EBADF);
    OK(read(ends[0], &byte, 1) == 0);
}

static volatile int faults;
static char *bad_page;
static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    OK(signal == SIGSEGV && info->si_addr == bad_page);
    faults++;
    OK(mprotect(bad_page, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void case_own_fault_handler(void) {
    int ends[2];
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
    bad_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pair(ends);
    OK(sigaction(SIGSEGV, &action, NULL) == 0);
    OK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_sigaction == on_fault);
    FAILS(write(ends[0], bad_page, 4), EFAULT);
    OK(faults == 0);
    *(volatile char *)bad_page = 1;
    OK(faults == 1);
    OK(write(ends[0], bad_page, 4) == 4);
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)8 = 1;
        _exit(0);
    }
    OK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void case_disconnect(void) {
    int ends[2];
    char byte;
    pair(ends);
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    OK(connect(ends[0], &none, sizeof none) == 0);
    ssize_t count = read(ends[1], &byte, 1);
    OK(count == 0 || (count == -1 && errno == ECONNRESET));
    struct sockaddr_in peer;
    socklen_t bytes = sizeof peer;
    FAILS(getpeername(ends[0], (struct sockaddr *)&peer, &bytes), ENOTCONN);
}

static void *flooder(void *argument) {
    static char bytes[1 << 20];
    int fd = *(int *)argument;
    size_t sent = 0;
    while (sent < 3 * sizeof bytes) {
        ssize_t count = write(fd, bytes, sizeof bytes);
        OK(count == sizeof bytes);
        sent += (size_t)count;
    }
    OK(shutdown(fd, SHUT_WR) == 0);
    return NULL;
}

static void case_blocking_writer(void) {
    int ends[2];
    static char buffer[70000];
    size_t got = 0;
    ssize_t count;
    pair(ends);
    pthread_t thread = later(flooder, &ends[0]);
    milliseconds(50);
    while ((count = read(ends[1], buffer, sizeof buffer)) > 0) got += (size_t)count;
    OK(count == 0 && got == 3 << 20 && pthread_join(thread, NULL) == 0);
}

static const struct test_case cases[] = {
    CASE(echo), CASE(names), CASE(nonblocking_connect), CASE(refused), CASE(half_close),
    CASE(broken_pipe), CASE(flags), CASE(waitall), CASE(bad_addresses), CASE(lists), CASE(dup),
    CASE(epoll), CASE(epoll_sleeps), CASE(epoll_mixed), CASE(epoll_in_epoll), CASE(epoll_many),
    CASE(epoll_threads), CASE(epoll_add_wakes), CASE(poll), CASE(select), CASE(signal_mask),
    CASE(interrupted), CASE(fork), CASE(fork_accepts), CASE(children_that_close_everything),
    CASE(close_everything), CASE(replaced_while_reading), CASE(shutdown_wakes),
    CASE(no_more_descriptors), CASE(sendfile), CASE(splice), CASE(options), CASE(by_number),
    CASE(streams), CASE(mapped), CASE(canceled), CASE(close_in_a_handler),
    CASE(own_fault_handler), CASE(disconnect), CASE(blocking_writer),
};

int main(int count, char **arguments) {
    return run_case(cases, sizeof cases / sizeof *cases, count, arguments);
}
