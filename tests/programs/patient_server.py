"""Listens once a file is there, and answers each connection with a byte.

Usage: patient_server.py PORT FILE
"""
import os
import socket
import sys
import time

print("waiting", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", int(sys.argv[1])))
listener.listen(16)
print("listening", flush=True)
while True:
    one, _ = listener.accept()
    one.sendall(b"x")
    one.close()
