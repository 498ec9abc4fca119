"""serve HOST PORT CERTIFICATE KEY: an HTTPS server. fetch HOST PORT CERTIFICATE: a client of it, by requests."""

import http.server
import ssl
import sys


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"answer" * 50_000
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(host, port, certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.ThreadingHTTPServer((host, port), Answers) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        print("listening", flush=True)
        server.serve_forever()


def fetch(host, port, certificate):
    import requests

    url = f"https://{host}:{port}/"
    # Each of its own connection, and then some of one.
    answers = [requests.get(url, timeout=5, verify=certificate) for _ in range(2)]
    with requests.Session() as session:
        answers += [session.get(url, timeout=5, verify=certificate) for _ in range(3)]
    assert all(answer.content == b"answer" * 50_000 for answer in answers), "another answer"
    print(f"{len(answers)} answers of 300000 bytes from {host}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
    else:
        fetch(sys.argv[2], int(sys.argv[3]), sys.argv[4])
