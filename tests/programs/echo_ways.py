"""An echo of HOST PORT that waits for its callers' bytes in one WAY; each caller's end is answered.

thread: a thread for each, in recv(2). epoll, epoll_edge: level by level, or edge by edge. poll:
poll(2). fork: two processes share every connection, and each reads and writes under a lock.
"""

import contextlib
import fcntl
import os
import select
import socket
import sys
import tempfile
import threading


def by_thread(listener):
    while True:
        caller, _ = listener.accept()
        threading.Thread(target=echo, args=(caller,), daemon=True).start()


def echo(caller):
    with caller:
        while piece := caller.recv(1 << 14):
            caller.sendall(piece)


def by_fork(listener):
    while True:
        caller, _ = listener.accept()
        if os.fork() == 0:
            lock_file = tempfile.TemporaryFile()
            if os.fork() == 0:
                shared_echo(caller, os.dup(lock_file.fileno()))
                os._exit(0)
            shared_echo(caller, lock_file.fileno())
            os._exit(0)
        caller.close()


def shared_echo(caller, lock):
    ended = False
    while not ended:
        # Both processes open the file anew, so that the lock is each one's own.
        with open(f"/proc/self/fd/{lock}", "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            piece = caller.recv(1 << 14)
            ended = not piece
            if piece:
                caller.sendall(piece)
            else:
                # The other one may have said so already.
                with contextlib.suppress(OSError):
                    caller.shutdown(socket.SHUT_WR)


class Caller:
    def __init__(self, stream):
        self.stream = stream
        self.unsent = b""
        self.is_at_end = False

    def go_on(self):
        """As far as it goes; whether it is through."""
        while True:
            if self.unsent:
                try:
                    self.unsent = self.unsent[self.stream.send(self.unsent):]
                    continue
                except BlockingIOError:
                    return False
            if self.is_at_end:
                self.stream.close()
                return True
            try:
                self.unsent = self.stream.recv(1 << 14)
            except BlockingIOError:
                return False
            self.is_at_end = not self.unsent

    def wants(self, reading, writing):
        return writing if self.unsent else reading


def by_epoll(listener, edge):
    listener.setblocking(False)
    callers = {}
    ready = select.epoll()
    ready.register(listener, select.EPOLLIN)
    while True:
        for fd, _ in ready.poll():
            if fd == listener.fileno():
                with contextlib.suppress(BlockingIOError):
                    while True:
                        stream, _ = listener.accept()
                        stream.setblocking(False)
                        callers[stream.fileno()] = Caller(stream)
                        both = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET
                        ready.register(stream, both if edge else select.EPOLLIN)
                continue
            caller = callers[fd]
            if caller.go_on():
                del callers[fd]
            elif not edge:
                ready.modify(fd, caller.wants(select.EPOLLIN, select.EPOLLOUT))


def by_poll(listener):
    listener.setblocking(False)
    callers = {}
    ready = select.poll()
    ready.register(listener, select.POLLIN)
    while True:
        for fd, _ in ready.poll():
            if fd == listener.fileno():
                with contextlib.suppress(BlockingIOError):
                    stream, _ = listener.accept()
                    stream.setblocking(False)
                    callers[stream.fileno()] = Caller(stream)
                    ready.register(stream, select.POLLIN)
                continue
            caller = callers[fd]
            if caller.go_on():
                del callers[fd]
                ready.unregister(fd)
            else:
                ready.modify(fd, caller.wants(select.POLLIN, select.POLLOUT))


def main(way, host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server(
        (host, port), family=family, backlog=100, dualstack_ipv6=family == socket.AF_INET6
    )
    print("listening", flush=True)
    match way:
        case "thread":
            by_thread(listener)
        case "fork":
            by_fork(listener)
        case "epoll":
            by_epoll(listener, edge=False)
        case "epoll_edge":
            by_epoll(listener, edge=True)
        case "poll":
            by_poll(listener)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
