"""An asyncio server: gives every connection back what it said, and its SHA-256 at the end."""

import asyncio
import hashlib
import sys


async def serve(reader, writer):
    summed = hashlib.sha256()
    while piece := await reader.read(1 << 16):
        summed.update(piece)
        writer.write(piece)
        await writer.drain()
    writer.write(summed.digest())
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def main(host, port):
    server = await asyncio.start_server(serve, host, port)
    print("listening", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
