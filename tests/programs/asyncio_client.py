"""An asyncio client of asyncio_server.py: many connections at once, and each byte of each is checked."""

import asyncio
import hashlib
import random
import sys


async def talk(host, port, size, seed):
    reader, writer = await asyncio.open_connection(host, port)
    meant = random.Random(seed).randbytes(size)

    async def send():
        for at in range(0, size, 1 << 16):
            writer.write(meant[at : at + (1 << 16)])
            await writer.drain()
        writer.write_eof()

    async def receive():
        assert await reader.readexactly(size) == meant, "other bytes came back"
        digest = await reader.read()
        assert digest == hashlib.sha256(meant).digest(), "other bytes had arrived"

    await asyncio.wait_for(asyncio.gather(send(), receive()), 60)
    writer.close()
    await writer.wait_closed()


async def main(host, port, count, size):
    await asyncio.gather(*(talk(host, port, size, seed) for seed in range(count)))
    print(f"{count} connections of {size} bytes are right")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
