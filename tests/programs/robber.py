"""Answers its callers, and when it is told to (SIGUSR1) tries, in threads and again and again, to
give the sockets that it has accepted other names: by the kernel's calls, past every library. Another
address and port that is bound already, another peer, another role. Each way in is a connection, or a
listener, of a name that was never given to it. SIGUSR2: says how many there were, and ends.

robber.py PORT OTHER_PORT PEER
"""
import ctypes
import mmap
import os
import platform
import signal
import socket
import struct
import sys
import threading
import time

PORT, OTHER = int(sys.argv[1]), int(sys.argv[2])
# Not by libc's names, which may be somebody's library: the instruction itself.
if platform.machine() == "x86_64":
    CONNECT, BIND, LISTEN, SETSOCKOPT, GETSOCKNAME = 42, 49, 50, 54, 51
    CODE = "4889f8 4889f7 4889d6 4889ca 4d89c2 4d89c8 0f05 c3"
else:
    CONNECT, BIND, LISTEN, SETSOCKOPT, GETSOCKNAME = 203, 200, 201, 208, 204
    CODE = "e80300aa e00301aa e10302aa e20303aa e30304aa e40305aa 010000d4 c0035fd6"
code = bytes.fromhex(CODE)
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
raw = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 6)(at)


def address(family, ip, port):
    if family == socket.AF_UNSPEC:
        return ctypes.create_string_buffer(struct.pack("=H14x", 0), 16)
    text = struct.pack("=H", family) + struct.pack("!H4s8x", port, socket.inet_aton(ip))
    return ctypes.create_string_buffer(text, 16)


def pointer(value):
    return ctypes.addressof(value)


listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", PORT))
listener.listen(100)
# Somebody else's port, which nobody may listen at beside it.
other = socket.socket()
other.bind(("0.0.0.0", OTHER))
other.listen(1)
go, stop = threading.Event(), threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: go.set())
signal.signal(signal.SIGUSR2, lambda *_: stop.set())
print("listening", flush=True)
listener.settimeout(0.2)
held = []
while not go.is_set():
    try:
        one, _ = listener.accept()
    except TimeoutError:
        continue
    one.settimeout(20)
    one.sendall(one.recv(5))
    held.append(one)
robbed = []
unspec = address(socket.AF_UNSPEC, "", 0)
elsewhere = address(socket.AF_INET, sys.argv[3], 4444)
taken = address(socket.AF_INET, "0.0.0.0", OTHER)


def rob(part):
    on, own, size = ctypes.c_int(1), ctypes.create_string_buffer(28), ctypes.c_uint(28)
    while not stop.is_set():
        for one in part:
            fd = one.fileno()
            raw(SETSOCKOPT, fd, socket.SOL_SOCKET, socket.SO_REUSEADDR, pointer(on), 4)
            if raw(BIND, fd, pointer(taken), 16, 0, 0) == 0:
                robbed.append("bound")
            size.value = 28
            raw(GETSOCKNAME, fd, pointer(own), pointer(size), 0, 0)
            if own.raw[2:4] == b"\0\0":
                continue
            # It has a name: somebody is making a connection of it, which is taken off.
            raw(CONNECT, fd, pointer(unspec), 16, 0, 0)
            if raw(CONNECT, fd, pointer(elsewhere), 16, 0, 0) == 0:
                robbed.append("connected")
            elif raw(LISTEN, fd, 1, 0, 0, 0) == 0:
                robbed.append("listening")
        time.sleep(0)


for one in held:
    # No call waits.
    os.set_blocking(one.fileno(), False)
threads = [threading.Thread(target=rob, args=(held[at::4],)) for at in range(4)]
for thread in threads:
    thread.start()
print("robbing", flush=True)
while not stop.is_set():
    time.sleep(0.05)
for thread in threads:
    thread.join()
print(len(robbed), "robbed", sorted(set(robbed)), flush=True)
print("done", flush=True)
time.sleep(60)
