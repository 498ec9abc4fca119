"""asyncio's datagram endpoints: an echo at HOST PORT, or with a COUNT a client of one."""

import asyncio
import sys


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.transport.sendto(data, addr)


class Asker(asyncio.DatagramProtocol):
    def __init__(self):
        self.answers = asyncio.Queue()

    def datagram_received(self, data, addr):
        self.answers.put_nowait(data)


async def serve(host, port):
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Echo, local_addr=(host, port))
    print("listening", flush=True)
    await asyncio.Event().wait()


async def ask(host, port, count):
    loop = asyncio.get_running_loop()
    # Connected ones, one that is bound first, and one that is neither.
    for number in range(count):
        transport, asker = await loop.create_datagram_endpoint(Asker, remote_addr=(host, port))
        for size in (1, 400, 1400):
            meant = number.to_bytes(4, "big") * size
            transport.sendto(meant[:1400])
            assert await asyncio.wait_for(asker.answers.get(), 20) == meant[:1400]
        assert transport.get_extra_info("peername")[:2] == (host, port)
        transport.close()
    transport, asker = await loop.create_datagram_endpoint(Asker, local_addr=("0.0.0.0", 0))
    transport.sendto(b"from anywhere", (host, port))
    assert await asyncio.wait_for(asker.answers.get(), 20) == b"from anywhere"
    transport.close()
    print(f"{count} endpoints were answered", flush=True)


if __name__ == "__main__":
    address = sys.argv[1], int(sys.argv[2])
    asyncio.run(serve(*address) if len(sys.argv) == 3 else ask(*address, int(sys.argv[3])))
