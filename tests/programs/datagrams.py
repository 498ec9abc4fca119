"""A UDP echo at HOST PORT, or with a count a client of one that sends that many, and checks each."""

import socket
import sys


def family(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def serve(host, port):
    with socket.socket(family(host), socket.SOCK_DGRAM) as server:
        server.bind((host, port))
        print("listening", flush=True)
        while True:
            datagram, peer = server.recvfrom(1 << 16)
            server.sendto(datagram, peer)


def ask(host, port, count):
    with socket.socket(family(host), socket.SOCK_DGRAM) as client:
        client.connect((host, port))
        client.settimeout(20)
        for number in range(count):
            datagram = number.to_bytes(4, "big") * (1 + number % 300)
            client.send(datagram)
            assert client.recv(1 << 16) == datagram, number
        print(f"{count} datagrams are right", flush=True)


if __name__ == "__main__":
    address = sys.argv[1], int(sys.argv[2])
    serve(*address) if len(sys.argv) == 3 else ask(*address, int(sys.argv[3]))
