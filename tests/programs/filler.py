"""Opens connections and sends into each for as long as somebody takes it: says how many, and how
much, and holds them until it is ended. They end with a reset then.

Usage: filler.py ADDRESS PORT CONNECTIONS
"""
import resource
import selectors
import signal
import socket
import struct
import sys
import time

address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
selector = selectors.DefaultSelector()
payload = b"x" * 16384
sent = {}
for number in range(count):
    one = socket.socket()
    # What waits here is little: the rest is with the other end.
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.setblocking(False)
    one.connect_ex((address, port))
    selector.register(one, selectors.EVENT_WRITE)
    sent[one] = 0
    if number % 50 == 0:
        time.sleep(0.01)
quiet_since = time.monotonic()
begun = quiet_since
while time.monotonic() - quiet_since < 2 and time.monotonic() - begun < 60:
    for key, _ in selector.select(0.1):
        try:
            sent[key.fileobj] += key.fileobj.send(payload)
            quiet_since = time.monotonic()
        except BlockingIOError:
            pass
        except OSError:
            selector.unregister(key.fileobj)
taken = [bytes for bytes in sent.values() if bytes > 0]
print(f"{len(taken)} connections took {sum(taken)} bytes", flush=True)
signal.pause()
