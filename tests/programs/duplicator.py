"""Accepts four connections and does nothing until it is told (SIGUSR1), when they are the kernel's.

Then, before it has done anything else with them, it makes a second number of the first by dup(2), of
the second by dup2(2) and of the third by F_DUPFD, and passes the fourth to a process that it had made
before. Everybody speaks by the new numbers; the old ones are closed. What the
connections had from their listener they have still.

duplicator.py ADDRESS PORT
"""

import array
import fcntl
import os
import signal
import socket
import struct
import sys

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
limit = struct.pack("ll", 60, 0)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
listener.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 44)
ours, theirs = socket.socketpair()
passed = os.fork()
if passed == 0:
    ours.close()
    _, beside, _, _ = theirs.recvmsg(1, socket.CMSG_LEN(4))
    fd = array.array("i", beside[0][2])[0]
    assert os.write(fd, b"passed") == 6
    assert os.read(fd, 6) == b"passed"
    os._exit(0)
theirs.close()
print("listening", flush=True)
callers = [listener.accept()[0].detach() for _ in range(4)]
place = os.open("/dev/null", os.O_RDONLY)
print("accepted", flush=True)
signal.sigwait({signal.SIGUSR1})
made = [
    os.dup(callers[0]),
    os.dup2(callers[1], place),
    fcntl.fcntl(callers[2], fcntl.F_DUPFD, 100),
]
ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [callers[3]]))])
for fd in callers:
    os.close(fd)
for fd in made:
    stream = socket.socket(fileno=fd)
    assert stream.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, len(limit)) == limit
    assert stream.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == 44
    stream.detach()
    assert os.write(fd, b"made") == 4
for fd in made:
    assert os.read(fd, 4) == b"made"
    os.close(fd)
_, status = os.waitpid(passed, 0)
print("all is right" if status == 0 else "the other process has failed", flush=True)
listener.accept()
