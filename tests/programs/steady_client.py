"""COUNT connections to an echo at HOST PORT; half of what each has to say waits for SIGUSR1."""

import signal
import socket
import sys


def say(connection, number, turn):
    text = bytes((number + turn * 3 + at * 5) % 256 for at in range(20_000))
    connection.sendall(text)
    back = b""
    while len(back) < len(text):
        piece = connection.recv(1 << 16)
        if not piece:
            sys.exit(f"connection {number} has ended")
        back += piece
    if back != text:
        sys.exit(f"connection {number} says something else")


def main(host, port, count):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    connections = [socket.create_connection((host, port)) for _ in range(count)]
    for number, connection in enumerate(connections):
        say(connection, number, 0)
    print("begun", flush=True)
    signal.sigwait({signal.SIGUSR1})
    for turn in (1, 2):
        for number, connection in enumerate(connections):
            say(connection, number, turn)
    for connection in connections:
        connection.shutdown(socket.SHUT_WR)
        if connection.recv(1):
            sys.exit("more than was said")
    print("all is right", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
