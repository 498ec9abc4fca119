"""Accepts COUNT connections, and opens files until it may have no more. When it is told (SIGUSR1) it
says again on each connection what its caller says, and opens no file meanwhile.

full_table.py COUNT ADDRESS PORT
"""

import os
import resource
import signal
import socket
import sys

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
listener = socket.create_server((sys.argv[2], int(sys.argv[3])))
print("listening", flush=True)
callers = [listener.accept()[0] for _ in range(int(sys.argv[1]))]
files = []
while True:
    try:
        files.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        break
print("accepted", flush=True)
signal.sigwait({signal.SIGUSR1})
for caller in callers:
    caller.sendall(caller.recv(100))
    caller.close()
    # The number that was free by that is not.
    files.append(os.open("/dev/null", os.O_RDONLY))
assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 200
print("all is right", flush=True)
listener.accept()
