/* A wire between two NICs, as a slice: what comes in at one leaves by the other, without a copy.
 *
 *   cc -I crates/programs/capi/include examples/bridge.c -L target/release -lcalisto -o bridge
 *   ./bridge "xdp:eth0 xdp:eth1" 2
 *   ./bridge "xdp:eth0@1 xdp:eth1@1" 3 "not arp"
 *
 * One such program for each queue, each on a CPU of its own, does that many times the work.
 * Ctrl-C ends it, and it says what it has carried. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "calisto.h"

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    stopped = signal;
}

static int fail(void)
{
    fprintf(stderr, "bridge: %s\n", calisto_error(NULL));
    return 1;
}

int main(int argc, char **argv)
{
    struct calisto_slice_options options;
    struct calisto_slice_packet packets[64];
    struct calisto_slice_counter counter;
    struct calisto_slice *slice;
    struct sigaction action;

    if (argc < 2) {
        fprintf(stderr, "usage: %s \"PORT PORT\" [CPUS [FILTER]]\n", argv[0]);
        return 2;
    }
    memset(&action, 0, sizeof action);
    action.sa_handler = stop;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);

    memset(&options, 0, sizeof options);
    options.ports = argv[1];
    options.cpus = argc > 2 ? argv[2] : NULL;
    options.filter = argc > 3 ? argv[3] : NULL;
    if (calisto_slice_open(&options, &slice) < 0 || calisto_slice_pin(slice) < 0)
        return fail();
    printf("ready\n");
    fflush(stdout);

    while (!stopped) {
        int i, taken, count = calisto_slice_read_multi(slice, packets, 64, CALISTO_FOREVER);
        if (count < 0)
            return fail();
        for (i = 0; i < count; i++)
            packets[i].port ^= 1;
        taken = calisto_slice_write_multi(slice, packets, count);
        if (taken < 0)
            return fail();
        /* What has no room is dropped, as a wire would. */
        for (i = 0; i < count - taken; i++)
            packets[i].flags = CALISTO_SLICE_SKIP;
        if (calisto_slice_write_multi(slice, packets, count - taken) < 0)
            return fail();
    }
    if (calisto_slice_counter(slice, -1, 0, &counter) == 1)
        printf("%llu packets %s\n", (unsigned long long)counter.value, counter.name);
    calisto_slice_close(slice);
    return 0;
}
