"""Connects to HOST PORT, says hello, and waits for an answer; prints how that ended."""

import errno
import socket
import sys


def main(host, port):
    try:
        with socket.create_connection((host, port)) as connection:
            connection.sendall(b"hello\n")
            print("connected", flush=True)
            while piece := connection.recv(1 << 16):
                print(f"{len(piece)} bytes", flush=True)
            print("ended", flush=True)
    except OSError as error:
        print(errno.errorcode.get(error.errno, error), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
