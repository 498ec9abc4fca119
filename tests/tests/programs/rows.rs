//! The rows of the table of programs.

/// A program: its name, how it tells its version, what it is run as, and what is looked at.
pub(crate) const ROWS: &[(&str, &str, &str, &str)] = &[
    (
        "redis-server",
        "redis-server --version",
        "server",
        "its protocol over IPv4 and IPv6, pipelining, values of MiB, expiry, pub/sub, saves by a forked child, a restart",
    ),
    ("redis-cli", "redis-cli --version", "client", "commands, repetition, scans"),
    (
        "memcached",
        "memcached --version",
        "server",
        "many clients of its threads, after it has dropped its rights, values of MiB",
    ),
    (
        "nginx",
        "/usr/sbin/nginx -v",
        "server",
        "two workers, small files over kept connections, 100 MiB bodies both ways; as a proxy of \
         servers of the wire and of the host",
    ),
    ("curl", "curl --version", "client", "100 MiB bodies both ways"),
    ("wrk", "wrk --version", "client", "40 connections of two threads"),
    ("iperf3", "iperf3 --version", "server and client", "both ways, one stream and four"),
    (
        "python3 http.server",
        "/usr/bin/python3 --version",
        "server",
        "small files, 100 MiB bodies both ways",
    ),
    (
        "python3 asyncio",
        "/usr/bin/python3 --version",
        "server and client",
        "50 connections at once, 100 MiB both ways at once; datagrams, over the wire and within the \
         host",
    ),
    (
        "python3 requests",
        "dpkg-query -W python3-requests",
        "client",
        "HTTPS with a time limit, over the wire and within the host",
    ),
    (
        "sshd",
        "dpkg-query -W openssh-server",
        "server",
        "logins, and 100 MiB each way by scp, over the wire and within the host",
    ),
    ("ssh, scp", "dpkg-query -W openssh-client", "client", "the same"),
    ("lighttpd", "dpkg-query -W lighttpd", "server", "a MiB, over the wire and within the host"),
    (
        "apache2, event",
        "dpkg-query -W apache2-bin",
        "server",
        "a MiB, and ten clients on kept connections, over the wire and within the host",
    ),
    ("apache2, prefork", "dpkg-query -W apache2-bin", "server", "the same"),
    ("apache2, worker", "dpkg-query -W apache2-bin", "server", "the same"),
    (
        "ab",
        "dpkg-query -W apache2-utils",
        "client",
        "four connections at once, over the wire and within the host",
    ),
    (
        "busybox httpd",
        "dpkg-query -W busybox",
        "server",
        "a MiB, over the wire and within the host",
    ),
    (
        "nghttpd",
        "nghttpd --version",
        "server",
        "HTTP/2 over TLS, over the wire and within the host",
    ),
    ("nghttp", "nghttp --version", "client", "the same"),
    (
        "varnishd",
        "dpkg-query -W varnish",
        "server and client",
        "what a server of the host has told it, and from memory when that is gone",
    ),
    (
        "haproxy",
        "dpkg-query -W haproxy",
        "server and client",
        "in front of a server of the wire, and of the host",
    ),
    (
        "stunnel4",
        "dpkg-query -W stunnel4",
        "server and client",
        "TLS in front of a server of the wire, and of the host",
    ),
    (
        "php-fpm",
        "dpkg-query -W php8.2-fpm",
        "server",
        "behind nginx over FastCGI, over the wire and within the host",
    ),
    (
        "socat",
        "dpkg-query -W socat",
        "server and client",
        "a MiB, a process for each connection, over the wire and within the host",
    ),
    ("ncat", "dpkg-query -W ncat", "server and client", "the same"),
    (
        "nc of OpenBSD",
        "dpkg-query -W netcat-openbsd",
        "server and client",
        "a MiB from a file, over the wire and within the host",
    ),
    (
        "openssl s_server",
        "dpkg-query -W openssl",
        "server",
        "a MiB over TLS, over the wire and within the host",
    ),
    ("openssl s_client", "dpkg-query -W openssl", "client", "the same"),
    (
        "rsync",
        "dpkg-query -W rsync",
        "server and client",
        "a file from its daemon, over the wire and within the host",
    ),
    ("wget", "dpkg-query -W wget", "client", "a MiB, over the wire and within the host"),
    ("aria2c", "dpkg-query -W aria2", "client", "the same"),
    ("lftp", "dpkg-query -W lftp", "client", "the same"),
    (
        "node http",
        "dpkg-query -W nodejs",
        "server and client",
        "a MiB through streams, over the wire and within the host",
    ),
    (
        "java HttpServer, HttpClient",
        "dpkg-query -W openjdk-17-jdk-headless",
        "server and client",
        "java.nio: a MiB, over the wire and within the host",
    ),
    (
        "java ServerSocket, Socket",
        "dpkg-query -W openjdk-17-jdk-headless",
        "server and client",
        "sockets that block: a MiB, over the wire and within the host",
    ),
    (
        "perl IO::Socket",
        "dpkg-query -W perl",
        "server and client",
        "a process for each connection, over the wire and within the host",
    ),
    (
        "ruby webrick",
        "dpkg-query -W ruby-webrick",
        "server",
        "a MiB, over the wire and within the host",
    ),
    ("ruby open-uri", "dpkg-query -W ruby", "client", "the same"),
    (
        "puma",
        "dpkg-query -W puma",
        "server",
        "threads, and then two processes of them, over the wire and within the host",
    ),
    (
        "gunicorn",
        "dpkg-query -W gunicorn",
        "server",
        "two workers, over the wire and within the host",
    ),
    (
        "uvicorn with uvloop",
        "dpkg-query -W python3-uvicorn",
        "server",
        "libuv's loop, over the wire and within the host",
    ),
    (
        "aiohttp",
        "dpkg-query -W python3-aiohttp",
        "server and client",
        "a MiB, over the wire and within the host",
    ),
    (
        "postgres",
        "dpkg-query -W postgresql-15",
        "server",
        "rows of psql, pgbench, over the wire and within the host",
    ),
    (
        "pgbench, psql",
        "dpkg-query -W postgresql-client-15",
        "client",
        "connections that stay, and with -C one for each transaction",
    ),
    (
        "mariadbd",
        "dpkg-query -W mariadb-server",
        "server",
        "a table of 16384 rows in and out, over the wire and within the host",
    ),
    ("mariadb", "dpkg-query -W mariadb-client", "client", "the same"),
    (
        "mosquitto",
        "dpkg-query -W mosquitto",
        "server",
        "a message of a MiB that is kept, over the wire and within the host",
    ),
    ("mosquitto_pub, mosquitto_sub", "dpkg-query -W mosquitto-clients", "client", "the same"),
    (
        "beanstalkd",
        "dpkg-query -W beanstalkd",
        "server",
        "a job of a MiB in and out, over the wire and within the host",
    ),
    ("unbound", "dpkg-query -W unbound", "server", "TCP and datagrams over the wire"),
    (
        "dnsmasq",
        "dpkg-query -W dnsmasq-base",
        "server",
        "datagrams over the wire, answered from the address that was asked (IP_PKTINFO)",
    ),
    (
        "gtlsserver of ngtcp2",
        "dpkg-query -W ngtcp2-server",
        "server",
        "a MiB by QUIC over the wire: ECN, IP_PKTINFO, UDP_SEGMENT",
    ),
    ("gtlsclient of ngtcp2", "dpkg-query -W ngtcp2-client", "client", "the same"),
    ("dig", "dpkg-query -W bind9-dnsutils", "client", "200 addresses over TCP, over the wire"),
];

/// Programs that were tried and left out, and why.
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    ("tinyproxy", "it runs, but at times an answer through it never comes; why is not known yet"),
    (
        "erlang gen_tcp",
        "it runs, but within the host a client at times waits for ever for a body that was sent; \
         why is not known yet",
    ),
    (
        "vsftpd",
        "it limits its address space (RLIMIT_AS) to less than the library maps of the memory that \
         it shares with the daemon, and makes its processes by a raw clone(2), which the library \
         does not see: logins end at once",
    ),
    (
        "h2o",
        "it runs, and its listeners stayed with the kernel until TCP_DEFER_ACCEPT was carried out: it \
         has not been tried since",
    ),
    (
        "nats-server, caddy, etcd and other programs of Go",
        "they make system calls of their own, past every library; `calisto run` says so",
    ),
];
