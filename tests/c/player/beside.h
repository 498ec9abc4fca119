/* Calls that carry control messages beside the bytes. Those that are sent are given by name:
   tos=2,ttl=9,segment=100,source=here; on IPv6 tclass and hops. */

static void add_part(struct msghdr *message, int level, int kind, const void *value, size_t bytes) {
    struct cmsghdr *part = (struct cmsghdr *)((char *)message->msg_control + message->msg_controllen);
    *part = (struct cmsghdr){.cmsg_len = CMSG_LEN(bytes), .cmsg_level = level, .cmsg_type = kind};
    memcpy(CMSG_DATA(part), value, bytes);
    message->msg_controllen += CMSG_SPACE(bytes);
}

static void add_source(struct msghdr *message, const char *host) {
    char name[WORD_BYTES_MAX];
    union address from;
    snprintf(name, sizeof name, "%s:0", host);
    address_of(name, &from);
    if (from.any.sa_family == AF_INET) {
        struct in_pktinfo info = {.ipi_spec_dst = from.four.sin_addr};
        add_part(message, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    } else {
        struct in6_pktinfo info = {.ipi6_addr = from.six.sin6_addr};
        add_part(message, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    }
}

static void add_named(struct msghdr *message, const char *name, const char *value) {
    static const struct option numbers[] = {
        {"tos", IPPROTO_IP, IP_TOS},         {"ttl", IPPROTO_IP, IP_TTL},
        {"tclass", IPPROTO_IPV6, IPV6_TCLASS}, {"hops", IPPROTO_IPV6, IPV6_HOPLIMIT},
        {"nonsense", IPPROTO_IP, 200},       {NULL, 0, 0},
    };
    int number = atoi(value);
    unsigned short segment = (unsigned short)number;
    if (is(name, "source")) add_source(message, value);
    else if (is(name, "segment")) add_part(message, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment);
    else
        for (const struct option *one = numbers; one->name; one++)
            if (is(one->name, name)) add_part(message, one->level, one->option, &number, sizeof number);
}

/* sendbeside A ADDRESS TEXT PARTS [FLAGS] */
static void sendbeside_call(struct call *call, int fd) {
    char *bytes = room(), beside[512] = {0}, parts[128];
    union address name;
    socklen_t length = address_of(word(call, 2), &name);
    struct iovec part = {bytes, text_of(word(call, 3), bytes)};
    struct msghdr message = {
        .msg_name = length ? &name : NULL, .msg_namelen = length, .msg_iov = &part, .msg_iovlen = 1,
        .msg_control = beside,
    };
    snprintf(parts, sizeof parts, "%s", word(call, 4));
    char *rest = parts;
    for (char *one; (one = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(one, '=');
        if (!value) continue;
        *value = 0;
        add_named(&message, one, value + 1);
    }
    told(call, sendmsg(fd, &message, (int)bits_of(word(call, 5), message_flags) | MSG_NOSIGNAL));
    free(bytes);
}

static void tell_host(struct call *call, int family, const void *bytes) {
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(family, bytes, text, sizeof text);
    const char *host = text;
    for (int i = 0; hosts[i].name; i++)
        if (hosts[i].family == family && is(hosts[i].text, text)) host = hosts[i].name;
    tell(call, "=%s", host);
}

/* Whether that many seconds are now, or a while ago. */
static void tell_time(struct call *call, time_t seconds) {
    time_t ago = time(NULL) - seconds;
    tell(call, ago >= -1 && ago < 60 ? "=now" : "=then");
}

static void tell_part(struct call *call, const struct cmsghdr *part) {
    const void *value = CMSG_DATA(part);
    int number = 0;
    tell(call, " %d:%d", part->cmsg_level, part->cmsg_type);
    if (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_PKTINFO) {
        struct in_pktinfo info = {0};
        memcpy(&info, value, sizeof info);
        tell_host(call, AF_INET, &info.ipi_spec_dst);
        tell_host(call, AF_INET, &info.ipi_addr);
        tell(call, "@%d", info.ipi_ifindex);
    } else if (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_PKTINFO) {
        struct in6_pktinfo info = {0};
        memcpy(&info, value, sizeof info);
        tell_host(call, AF_INET6, &info.ipi6_addr);
        tell(call, "@%d", (int)info.ipi6_ifindex);
    } else if (part->cmsg_level == SOL_SOCKET) {
        time_t seconds = 0;
        memcpy(&seconds, value, sizeof seconds);
        tell_time(call, seconds);
    } else if (part->cmsg_len > CMSG_LEN(sizeof number)) {
        union address name = {0};
        memcpy(&name, value, part->cmsg_len - CMSG_LEN(0));
        tell_address(call, &name, sizeof name);
    } else {
        memcpy(&number, value, part->cmsg_len - CMSG_LEN(0));
        tell(call, "=%d", number);
    }
}

/* recvbeside A COUNT ROOM [FLAGS]: with room for so many bytes of control messages, 512 at most. */
static void recvbeside_call(struct call *call, int fd) {
    char *bytes = room(), beside[512] = {0};
    size_t count = (size_t)number(call, 2), place = (size_t)number(call, 3);
    union address name = {0};
    struct iovec part = {bytes, count};
    struct msghdr message = {
        .msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &part, .msg_iovlen = 1,
        .msg_control = beside, .msg_controllen = place < sizeof beside ? place : sizeof beside,
    };
    ssize_t got = recvmsg(fd, &message, (int)bits_of(word(call, 4), message_flags));
    if (told(call, got)) {
        tell_bytes(call, bytes, (size_t)got < count ? (size_t)got : count);
        tell_address(call, &name, message.msg_namelen);
        tell(call, " ");
        tell_bits(call, (unsigned)message.msg_flags, message_flags);
        tell(call, " %zu", message.msg_controllen);
        /* A part that was cut may be shorter than its value. */
        if (!(message.msg_flags & MSG_CTRUNC))
            for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one))
                tell_part(call, one);
    }
    free(bytes);
}
