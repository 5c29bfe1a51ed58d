"""Answers every request over TLS: `tls.py CERTIFICATE KEY`, on a port that it prints first.

At /down it redirects to plain HTTP on the same host."""

import http.server
import ssl
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        down = self.path == "/down"
        self.send_response(302 if down else 200)
        if down:
            self.send_header("Location", "http://127.0.0.1:9/")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "16")
        self.end_headers()
        self.wfile.write(b'{"sealed": true}')
        print("asked", self.path, flush=True)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_port, flush=True)
server.serve_forever()
