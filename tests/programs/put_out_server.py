"""An echo that says what became of each connection, and goes on listening anew when its listener ends.

Usage: put_out_server.py PORT
With a line on "lie" of each connection it writes nonsense into all memory that it shares.
"""
import mmap
import os
import socket
import sys


def lie():
    """Writes into every page of memory that is shared under the library's name."""
    with open("/proc/self/maps") as maps:
        ranges = [line.split() for line in maps if "memfd:" in line and "rw-s" in line]
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        for fields in ranges:
            begin, end = (int(at, 16) for at in fields[0].split("-"))
            for at in range(begin, min(end, begin + (1 << 20)), 4096):
                memory.seek(at)
                memory.write(b"\x5a" * 4096)


print("pid", os.getpid(), flush=True)
while True:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", int(sys.argv[1])))
    listener.listen(16)
    print("listening", flush=True)
    one, _ = listener.accept()
    try:
        while piece := one.recv(4096):
            if piece == b"lie":
                lie()
            one.sendall(piece)
        print("ended", flush=True)
    except OSError as error:
        print("broken:", error.strerror, flush=True)
    one.close()
    listener.close()
