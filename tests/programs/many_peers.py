"""Opens EACH connections to each of PORTS ports of HOST, from FIRST on, keeps all of them, and talks by each."""

import socket
import sys


def main(host, first, ports, each):
    connections = []
    for _ in range(each):
        for port in range(first, first + ports):
            connections.append(socket.create_connection((host, port), timeout=10))
    names = [(c.getsockname(), c.getpeername()) for c in connections]
    assert len(set(names)) == len(names), "two connections of one name"
    for number, connection in enumerate(connections):
        connection.sendall(number.to_bytes(4, "big"))
        assert connection.recv(4) == number.to_bytes(4, "big"), number
    own = {name[1] for name, _ in names}
    print(f"{len(connections)} connections from {len(own)} ports", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
