"""A listener that goes from one program to another through a UNIX socket (SCM_RIGHTS).

give PATH HOST PORT: listens there, passes the listener to whoever connects to PATH, and lets go of it.
take PATH COUNT: gets a listener, and gives COUNT callers back what they say.
"""

import selectors
import signal
import socket
import sys


def give(path, host, port):
    with socket.socket(socket.AF_UNIX) as door, socket.create_server((host, port)) as listener:
        door.bind(path)
        door.listen()
        print("listening", flush=True)
        taker, _ = door.accept()
        with taker:
            socket.send_fds(taker, [b"x"], [listener.fileno()])
            # The other one has it before this one lets go of it.
            taker.recv(1)
    print("passed", flush=True)
    signal.pause()


def take(path, count):
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
        _, numbers, _, _ = socket.recv_fds(door, 1, 1)
        listener = socket.socket(fileno=numbers[0])
        listener.setblocking(False)
        door.send(b"x")
    print("taken", flush=True)
    with listener, selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        for _ in range(count):
            selector.select()
            caller, _ = listener.accept()
            with caller:
                caller.setblocking(True)
                while piece := caller.recv(1 << 16):
                    caller.sendall(piece)
    print(f"{count} callers had their words back", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "give":
        give(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        take(sys.argv[2], int(sys.argv[3]))
