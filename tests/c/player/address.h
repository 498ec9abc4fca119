/* Addresses by name: HOST:PORT, where a port is one of the sequence's own (p1 to p4), 0, or that of
   a named socket (@a). A port that the system has chosen is told as "auto". */

enum { PORTS = 4 };

static struct {
    const char *name;
    int family;
    char text[INET6_ADDRSTRLEN];
} hosts[] = {
    {"any", AF_INET, "0.0.0.0"},      {"lo", AF_INET, "127.0.0.1"},
    {"here", AF_INET, ""},            {"there", AF_INET, ""},
    {"none", AF_INET, "10.77.0.99"},  {"away", AF_INET, "192.0.2.1"},
    {"any6", AF_INET6, "::"},         {"lo6", AF_INET6, "::1"},
    {"here6", AF_INET6, ""},          {"there6", AF_INET6, ""},
    {"mapped-any", AF_INET6, "::ffff:0.0.0.0"},
    {"mapped-lo", AF_INET6, "::ffff:127.0.0.1"},
    {"mapped-here", AF_INET6, ""},    {"mapped-there", AF_INET6, ""},
    {NULL, 0, ""},
};

static int first_port;

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_storage room;
};

static void name_host(const char *name, const char *prefix, const char *text) {
    for (int i = 0; hosts[i].name; i++)
        if (is(hosts[i].name, name)) snprintf(hosts[i].text, INET6_ADDRSTRLEN, "%s%s", prefix, text);
}

static int port_of(const union address *address) {
    return ntohs(address->any.sa_family == AF_INET6 ? address->six.sin6_port
                                                    : address->four.sin_port);
}

static int port_by_name(const char *name) {
    if (*name == 'p') return first_port + atoi(name + 1) - 1;
    if (*name != '@') return atoi(name);
    union address own = {0};
    socklen_t bytes = sizeof own;
    int fd = fd_of(name + 1);
    return fd < 0 || getsockname(fd, &own.any, &bytes) != 0 ? 0 : port_of(&own);
}

/* How long the address is; 0 for "-", no address. */
static socklen_t address_of(const char *name, union address *address) {
    char host[WORD_BYTES_MAX];
    const char *colon = strchr(name, ':');
    memset(address, 0, sizeof *address);
    if (is(name, "unspec")) return sizeof address->four;
    if (!colon) return 0;
    snprintf(host, sizeof host, "%.*s", (int)(colon - name), name);
    unsigned short port = htons((unsigned short)port_by_name(colon + 1));
    for (int i = 0; hosts[i].name; i++) {
        if (!is(hosts[i].name, host)) continue;
        address->any.sa_family = (sa_family_t)hosts[i].family;
        if (hosts[i].family == AF_INET) {
            address->four.sin_port = port;
            inet_pton(AF_INET, hosts[i].text, &address->four.sin_addr);
            return sizeof address->four;
        }
        address->six.sin6_port = port;
        inet_pton(AF_INET6, hosts[i].text, &address->six.sin6_addr);
        return sizeof address->six;
    }
    die(name);
    return 0;
}

static void tell_address(struct call *call, const union address *address, socklen_t bytes) {
    char text[INET6_ADDRSTRLEN] = "";
    int family = address->any.sa_family;
    if (bytes == 0 || (family != AF_INET && family != AF_INET6)) {
        tell(call, " nowhere");
        return;
    }
    if (family == AF_INET) inet_ntop(family, &address->four.sin_addr, text, sizeof text);
    else inet_ntop(family, &address->six.sin6_addr, text, sizeof text);
    const char *host = text;
    for (int i = 0; hosts[i].name; i++)
        if (hosts[i].family == family && is(hosts[i].text, text)) host = hosts[i].name;
    int port = port_of(address);
    if (port == 0) tell(call, " %s:0", host);
    else if (port >= first_port && port < first_port + PORTS)
        tell(call, " %s:p%d", host, port - first_port + 1);
    else tell(call, " %s:auto", host);
}
