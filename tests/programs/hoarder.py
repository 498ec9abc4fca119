"""Accepts every connection and reads from none, until it is ended."""
import resource
import signal
import socket
import sys
import threading

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", int(sys.argv[1])))
listener.listen(4096)
held = []


def accept():
    while True:
        held.append(listener.accept()[0])


threading.Thread(target=accept, daemon=True).start()
print("listening", flush=True)
signal.pause()
