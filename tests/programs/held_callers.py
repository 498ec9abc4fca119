"""A server of HOST PORT whose callers are held until SIGUSR1, a thread for each.

reader: then reads all that its caller has to say, and says it again. writer: before that it tells
each caller BYTES bytes and that it has no more to say. Both print how many bytes they have read.
leaver: tells each caller BYTES bytes, closes the connection and says so.
"""

import signal
import socket
import sys
import threading

GO_ON = threading.Event()


def text(count):
    return bytes((at * 7 + at // 251) % 256 for at in range(1 << 16)) * (count >> 16)


def serve(caller, mode, count):
    with caller:
        if mode == "leaver":
            caller.sendall(text(count))
            caller.close()
            print("left", flush=True)
            return
        if mode == "writer":
            caller.sendall(text(count))
            caller.shutdown(socket.SHUT_WR)
        GO_ON.wait()
        pieces = []
        while piece := caller.recv(1 << 16):
            pieces.append(piece)
        said = b"".join(pieces)
        if mode == "reader":
            caller.sendall(said)
        print(f"{len(said)} bytes", flush=True)


def main(mode, count, host, port):
    # Waited for, not handled: a process that goes on after SIGSTOP may take the signal in another
    # thread, and the one that pauses never hears of it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server(
        (host, port), family=family, backlog=100, dualstack_ipv6=family == socket.AF_INET6
    )
    print("listening", flush=True)

    def accept():
        while True:
            caller, _ = listener.accept()
            threading.Thread(target=serve, args=(caller, mode, count), daemon=True).start()
            print("accepted", flush=True)

    threading.Thread(target=accept, daemon=True).start()
    signal.sigwait({signal.SIGUSR1})
    GO_ON.set()
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
