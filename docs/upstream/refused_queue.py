"""FATE 2.2.0: RabbitMQ refuses a queue, and FATE goes on as if it were there. Needs pika; the broker is a stand-in."""

import http.server
import threading

from fate.arch.federation.backends.rabbitmq._rabbit_manager import RabbitManager


class StartingBroker(http.server.BaseHTTPRequestHandler):
    """Answers as RabbitMQ's management does while another party's call has it start the virtual host."""

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(400)
        self.end_headers()

    def log_message(self, *arguments):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), StartingBroker)
threading.Thread(target=server.serve_forever, daemon=True).start()
manager = RabbitManager("fate", "password", f"127.0.0.1:{server.server_port}")
# RabbitmqFederation._create_topic_by_client_mode calls it like this, and takes no notice of what it returns.
print("the queue was made:", manager.create_queue("virtual-host", "send-queue"))
print("no error was raised: what is sent to this queue is lost, and the other party waits for ever")
