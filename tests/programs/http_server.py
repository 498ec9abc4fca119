"""http.server that also takes uploads: PUT answers with the SHA-256 of what came."""

import hashlib
import http.server
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        left = int(self.headers["Content-Length"])
        summed = hashlib.sha256()
        while left:
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                raise EOFError("the body ends too soon")
            summed.update(piece)
            left -= len(piece)
        answer = (summed.hexdigest() + "\n").encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


if __name__ == "__main__":
    http.server.test(
        HandlerClass=Handler,
        ServerClass=http.server.ThreadingHTTPServer,
        protocol=Handler.protocol_version,
        port=int(sys.argv[1]),
        bind=sys.argv[2],
    )
