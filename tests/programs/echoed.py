"""Says COUNT bytes to HOST PORT, ends its half, and wants them back within ten seconds."""

import random
import socket
import sys
import threading


def main(host, port, count):
    meant = random.Random(count).randbytes(count)
    with socket.create_connection((host, port), timeout=10) as connection:

        def send():
            connection.sendall(meant)
            connection.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        came = b""
        while piece := connection.recv(1 << 16):
            came += piece
        sender.join()
    assert came == meant, "other bytes came back"
    print(f"{count} bytes came back", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
