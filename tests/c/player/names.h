/* Descriptors by name, and what a call is told and tells. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NAMES_MAX = 64, WORDS_MAX = 16, WORD_BYTES_MAX = 32, LINE_BYTES_MAX = 2048 };

/* A line of a script, and what is seen of it. */
struct call {
    char *word[WORDS_MAX];
    int words;
    /* How long a call may take before it counts as one that waits. */
    int timeout_ms;
    char told[LINE_BYTES_MAX];
    int told_bytes;
};

static struct {
    char name[WORD_BYTES_MAX];
    int fd;
} names[NAMES_MAX];

static struct timespec ms(long count) {
    return (struct timespec){count / 1000, count % 1000 * 1000000};
}

static void die(const char *what) {
    dprintf(2, "player %d: %s: %s\n", getpid(), what, strerror(errno));
    _exit(3);
}

__attribute__((format(printf, 2, 3))) static void tell(struct call *call, const char *format, ...) {
    size_t room = sizeof call->told - (size_t)call->told_bytes;
    va_list words;
    va_start(words, format);
    int bytes = vsnprintf(call->told + call->told_bytes, room, format, words);
    va_end(words);
    call->told_bytes += bytes < (int)room ? bytes : (int)room - 1;
}

/* The number that a call gave, or the name of its error; a call that had to be interrupted is one
   that waits. Whether it succeeded. */
static int told(struct call *call, long result) {
    if (result >= 0) tell(call, "%ld", result);
    else if (errno == EINTR) tell(call, "waits");
    else tell(call, "%s", strerrorname_np(errno));
    return result >= 0;
}

/* The same for calls whose number is a descriptor, or nothing. */
static int done(struct call *call, long result) {
    return told(call, result < 0 ? result : 0);
}

static int is(const char *word, const char *other) { return strcmp(word, other) == 0; }

static const char *word(const struct call *call, int at) {
    return at < call->words ? call->word[at] : "";
}

static int number(const struct call *call, int at) { return atoi(word(call, at)); }

static int slot_of(const char *name) {
    for (int i = 0; i < NAMES_MAX; i++)
        if (names[i].fd >= 0 && is(names[i].name, name)) return i;
    return -1;
}

/* The descriptor of a name; -1 where no such call has succeeded. */
static int fd_of(const char *name) {
    int slot = slot_of(name);
    return slot < 0 ? -1 : names[slot].fd;
}

static void forget(const char *name) {
    int slot = slot_of(name);
    if (slot >= 0) names[slot].fd = -1;
}

/* A name is given once: what it had before is closed. */
static void name_fd(const char *name, int fd) {
    if (fd < 0) return;
    int slot = slot_of(name);
    if (slot >= 0) close(names[slot].fd);
    for (int i = 0; slot < 0 && i < NAMES_MAX; i++)
        if (names[i].fd < 0) slot = i;
    if (slot < 0) die("too many names");
    snprintf(names[slot].name, WORD_BYTES_MAX, "%s", name);
    names[slot].fd = fd;
}

/* Whether a comma-separated list has this word. */
static int has(const char *list, const char *item) {
    size_t bytes = strlen(item);
    for (const char *at = list; (at = strstr(at, item)) != NULL; at += bytes)
        if ((at == list || at[-1] == ',') && (at[bytes] == 0 || at[bytes] == ',')) return 1;
    return 0;
}

struct bit { const char *name; unsigned bit; };

/* The bits of a comma-separated list. */
static unsigned bits_of(const char *list, const struct bit *bits) {
    unsigned sum = 0;
    for (; bits->name; bits++)
        if (has(list, bits->name)) sum |= bits->bit;
    return sum;
}

static void tell_bits(struct call *call, unsigned value, const struct bit *bits) {
    const char *between = "";
    for (; bits->name; bits++)
        if (value & bits->bit) tell(call, "%s%s", between, bits->name), between = ",";
    if (*between == 0) tell(call, "-");
}
