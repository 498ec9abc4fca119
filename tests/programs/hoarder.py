"""Accepts every connection and reads from none, until it is ended. Says so when connections end, and
what a read of the first of them says.

Usage: hoarder.py PORT [close]

With `close` it closes those that end.
"""
import resource
import select
import socket
import sys
import threading

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", int(sys.argv[1])))
listener.listen(4096)
held = {}
# Nothing but ends is asked for.
poll = select.poll()


def accept():
    while True:
        one = listener.accept()[0]
        held[one.fileno()] = one
        poll.register(one.fileno(), 0)


threading.Thread(target=accept, daemon=True).start()
print("listening", flush=True)
said = False
while True:
    for descriptor, _ in poll.poll(500):
        poll.unregister(descriptor)
        if not said:
            said = True
            try:
                what = f"{len(held[descriptor].recv(100))} bytes"
            except OSError as error:
                what = error.strerror
            print(f"ended: {what}", flush=True)
        if "close" in sys.argv:
            held.pop(descriptor).close()
