//! Programs as Debian ships them, unmodified, served by Calisto: everything that they sent and
//! received went its way, and is exact.

mod bodies;
mod clients;
mod curl;
mod databases;
mod ground;
mod iperf;
mod languages;
mod memcached;
mod names;
mod nginx;
mod proxy;
mod python;
mod quic;
mod redis;
mod relays;
mod rows;
mod ssh;
mod table;
mod tls;
mod tools;
mod web;

use std::process::Command;
use std::sync::OnceLock;

use whole::project;

/// The commands that these tests run, and Debian's packages with them.
const PACKAGES: &[&str] = &[
    "redis-server=redis-server",
    "redis-cli=redis-tools",
    "memcached=memcached",
    "nginx=nginx",
    "iperf3=iperf3",
    "curl=curl",
    "wrk=wrk",
    "/usr/bin/python3=python3",
    "/usr/lib/python3/dist-packages/requests=python3-requests",
    "openssl=openssl",
    "/usr/sbin/sshd=openssh-server",
    "ssh=openssh-client",
    "/usr/sbin/lighttpd=lighttpd",
    "/usr/sbin/apache2=apache2-bin",
    "ab=apache2-utils",
    "busybox=busybox",
    "nghttpd=nghttp2-server",
    "nghttp=nghttp2-client",
    "/usr/sbin/haproxy=haproxy",
    "/usr/sbin/varnishd=varnish",
    "stunnel4=stunnel4",
    "rsync=rsync",
    "socat=socat",
    "ncat=ncat",
    "nc.openbsd=netcat-openbsd",
    "wget=wget",
    "aria2c=aria2",
    "lftp=lftp",
    "node=nodejs",
    "javac=openjdk-17-jdk-headless",
    "gunicorn=gunicorn",
    "/usr/lib/python3/dist-packages/uvicorn=python3-uvicorn",
    "/usr/lib/python3/dist-packages/uvloop=python3-uvloop",
    "/usr/lib/python3/dist-packages/aiohttp=python3-aiohttp",
    "/usr/sbin/php-fpm8.2=php8.2-fpm",
    "ruby=ruby",
    "/usr/share/doc/ruby-webrick=ruby-webrick",
    "puma=puma",
    "perl=perl",
    "/usr/sbin/nats-server=nats-server",
    "/usr/lib/postgresql/15/bin/postgres=postgresql-15",
    "mariadb-install-db=mariadb-server",
    "/usr/sbin/mosquitto=mosquitto",
    "mosquitto_pub=mosquitto-clients",
    "beanstalkd=beanstalkd",
    "/usr/sbin/unbound=unbound",
    "dig=bind9-dnsutils",
    "/usr/sbin/dnsmasq=dnsmasq-base",
    "/usr/sbin/gtlsserver=ngtcp2-server",
    "gtlsclient=ngtcp2-client",
];

/// Installs what is missing, once; a machine where that cannot be done fails here and not later.
pub(crate) fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let mut script = Command::new(project().join("script/install-missing"));
        let output = script.args(PACKAGES).output().expect("bash is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the programs to test cannot be installed: {said}");
    });
}
