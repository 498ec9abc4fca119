/* UDP echo over libcalisto: the smallest whole program in C.
 *
 *   cc -std=c99 -I crates/programs/capi/include examples/echo.c -L target/release -lcalisto -o echo
 *   LD_LIBRARY_PATH=target/release ./echo udp:10.0.0.2:7
 *
 * CALISTO_APPS names the daemon's socket, if it is not the usual one.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "calisto.h"

#define BATCH 64

static volatile sig_atomic_t stop;

static void on_signal(int signal)
{
    (void)signal;
    stop = 1;
}

/* Gives packets back: answers are sent, the rest is done with. False when the daemon is gone. */
static int give(struct calisto_worker *worker, struct calisto_packet *packets, uint32_t count,
                int send)
{
    uint32_t given = 0;
    while (given < count) {
        int some = send ? calisto_send(worker, packets + given, count - given)
                        : calisto_done(worker, packets + given, count - given);
        if (some < 0)
            return 0;
        given += (uint32_t)some;
        if (given < count)
            calisto_flush(worker); /* The ring is full: the daemon is to take some. */
    }
    return 1;
}

/* Answers one batch. Returns how many packets there were, or an error. */
static int serve(struct calisto_worker *worker, unsigned long *answered)
{
    struct calisto_packet packets[BATCH], answers[BATCH], others[BATCH];
    uint32_t answer_count = 0, other_count = 0;
    int received = calisto_receive(worker, packets, BATCH);
    for (int i = 0; i < received; i++) {
        if (calisto_reply(worker, &packets[i], NULL, 0) == 0)
            answers[answer_count++] = packets[i];
        else
            others[other_count++] = packets[i];
    }
    if (!give(worker, answers, answer_count, 1) || !give(worker, others, other_count, 0))
        return CALISTO_DETACHED;
    *answered += answer_count;
    return received;
}

int main(int argc, char **argv)
{
    struct calisto_options options;
    struct calisto_app *app;
    struct sigaction action;
    unsigned long answered = 0;
    int result = 0;

    if (argc != 2 || argv[1][0] == '-') {
        fprintf(stderr, "usage: %s ADDRESS\n  such as: %s udp:10.0.0.2:7\n", argv[0], argv[0]);
        return 2;
    }
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);

    memset(&options, 0, sizeof options);
    options.name = "echo-c";
    options.listen = (const char *const *)&argv[1];
    options.listen_count = 1;
    if (calisto_attach(&options, &app) < 0) {
        fprintf(stderr, "echo: %s\n", calisto_error(NULL));
        return 1;
    }
    struct calisto_worker *worker = calisto_worker(app, 0);
    while (!stop && result >= 0) {
        result = serve(worker, &answered);
        if (result == 0)
            result = calisto_wait(worker, 1000000000u);
    }
    if (result < 0)
        fprintf(stderr, "echo: %s\n", calisto_error(app));
    printf("%lu packets answered\n", answered);
    calisto_detach(app);
    return result < 0;
}
