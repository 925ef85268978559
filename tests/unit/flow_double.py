"""A server on the loopback interface that answers as FATE-Flow does."""

import http.server
import json
import socket
import threading
from contextlib import contextmanager

from fate_dp.deploy.fate_patches.job_gate import NOT_A_NAME
from fate_dp.deploy.flow.client import Answer, FlowAddress
from fate_dp.deploy.flow.unfinished import NO_JOB, UNFINISHED

VERSION = {"server/fateflow": {"flow": {"version": "2.2.0", "http_port": 1, "grpc_port": 2}}}
NO_JOBS = {f"job/query?status={status}": Answer(NO_JOB, "No found job") for status in UNFINISHED}
GUARDED = {"partner/job/create": Answer(1002, f"Create job failed: detail[job_id {NOT_A_NAME}, got 'fate_dp/doctor'.]")}


@contextmanager
def flow_double(answers, code=0):
    """Serve {path: data, or the whole answer}; yields the address and the list of (path, body, headers) that were asked."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(None)

        def do_POST(self):
            self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def answer(self, body):
            path = self.path.removeprefix("/v2/")
            asked.append((path, body, dict(self.headers)))
            found = path in answers
            data = answers[path](body) if found and callable(answers[path]) else answers.get(path)
            said = data if isinstance(data, Answer) else Answer(code if found else 6000, "as it is", data)
            text = json.dumps({"code": said.code, "message": said.message, "data": said.data})
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield FlowAddress("127.0.0.1", server.server_address[1]), asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class speaking:
    """Answers every connection, after it has said something, with the same bytes."""

    def __init__(self, answer):
        self.answer, self.listener = answer, socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(self.answer)

    def __enter__(self):
        return self.listener.getsockname()[1]

    def __exit__(self, *exception):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
