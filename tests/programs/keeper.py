"""Accepts two connections, and gives the first one settings and a second number. When it is told
(SIGUSR1) it forks: the child speaks on the second connection, which the parent closes without another
look at it. Then the parent says whether all settings are as they were, and speaks by both numbers.

keeper.py ADDRESS PORT
"""
import fcntl
import os
import signal
import socket
import struct
import sys
import time

listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
go = False


def heard(*_):
    global go
    go = True


signal.signal(signal.SIGUSR1, heard)
print("listening", flush=True)
one, _ = listener.accept()
two, _ = listener.accept()
numbers = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 123456),
    (socket.IPPROTO_IP, socket.IP_TOS, 0x10),
]
for number in numbers:
    one.setsockopt(*number)
linger = struct.pack("ii", 1, 9)
one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
one.setblocking(False)
fcntl.fcntl(one, fcntl.F_SETOWN, os.getpid())
twin = os.dup(one.fileno())
os.set_inheritable(twin, True)
print("accepted", flush=True)
while not go:
    time.sleep(0.02)
child = os.fork()
if child == 0:
    two.sendall(b"child")
    os._exit(0)
two.close()
_, status = os.waitpid(child, 0)
for level, name, value in numbers:
    found = one.getsockopt(level, name)
    assert found == value, (level, name, found)
assert one.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == linger
assert fcntl.fcntl(one, fcntl.F_GETFL) & os.O_NONBLOCK
assert fcntl.fcntl(one, fcntl.F_GETOWN) == os.getpid()
assert os.get_inheritable(twin) and not os.get_inheritable(one.fileno())
assert one.send(b"one") == 3
assert os.write(twin, b"two") == 3
one.close()
os.close(twin)
print("all is right" if status == 0 else "the child has failed", flush=True)
listener.accept()
