"""An echo that says what became of each connection, and goes on listening anew when its listener ends.

Usage: put_out_server.py PORT
"""
import os
import socket
import sys

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
            one.sendall(piece)
        print("ended", flush=True)
    except OSError as error:
        print("broken:", error.strerror, flush=True)
    one.close()
    listener.close()
