"""A server of HOST PORT that gives its callers back what they say, and waits for them in one WAY.

thread: two threads in accept(2). poll: poll(2) without end. fork: three processes in epoll_wait(2).
"""

import contextlib
import os
import select
import signal
import socket
import sys
import threading


def serve(caller):
    with caller, contextlib.suppress(ConnectionError):
        while piece := caller.recv(1 << 16):
            caller.sendall(piece)


def accept(listener):
    try:
        caller, _ = listener.accept()
    except BlockingIOError:
        return
    caller.setblocking(True)
    threading.Thread(target=serve, args=(caller,), daemon=True).start()


def by_epoll(listener):
    listener.setblocking(False)
    with select.epoll() as ready:
        ready.register(listener, select.EPOLLIN)
        while True:
            ready.poll()
            accept(listener)


def by_poll(listener):
    ready = select.poll()
    ready.register(listener, select.POLLIN)
    while True:
        ready.poll()
        accept(listener)


def by_accept(listener):
    while True:
        accept(listener)


def main(way, host, port):
    listener = socket.create_server((host, port), backlog=100)
    print("listening", flush=True)
    match way:
        case "thread":
            for _ in range(2):
                threading.Thread(target=by_accept, args=(listener,), daemon=True).start()
            signal.pause()
        case "poll":
            by_poll(listener)
        case "fork":
            parent = os.getpid()
            for _ in range(3):
                if os.fork() == 0:
                    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
                    by_epoll(listener)
            signal.pause()


def end_with(parent):
    ended = os.pidfd_open(parent)
    select.select([ended], [], [])
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
