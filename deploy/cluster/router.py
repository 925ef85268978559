"""The router of the command channel: an nginx that hands each command to the server of the party that it is for.

FATE-Flow sends every command, those to its own party included, as HTTP to one address, and names the receiver in the
header `dest-party-id`. nginx is what operators would put there between sites, where it also does TLS; so it is here.
"""
from __future__ import annotations

import os
import pwd
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fate_dp.deploy.ports import HOST
from fate_dp.deploy.program_start import wait_until
from fate_dp.deploy.server_processes import end_all, start_detached
from fate_dp.privacy.private_file import replace_file

from .engine import router_program
from .piece import PieceStatus, failed_start, status_of
from .private_files import make_private_folder

START_SECONDS = 20.0
ANSWER_SECONDS = 5.0
# FATE-Flows ask each other for nothing but /v2/partner/ and /v2/scheduler/. The rest is for a party itself: FATE-Flow
# asks nobody for a signature at /v2/worker/, where tasks report and models are.
CONFIGURATION = """\
daemon off;
{user}pid {folder}/router.pid;
error_log stderr;
worker_processes 1;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_max_body_size 0;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/unused;
    uwsgi_temp_path {folder}/unused;
    scgi_temp_path {folder}/unused;
    map $http_dest_party_id $server_of_party {{
        default "";
{routes}
    }}
    server {{
        listen {host}:{port};
        default_type application/json;
        location = /router {{ return 200 '{{"code": 0, "message": "success"}}'; }}
        location ~ ^/v2/(partner|scheduler)/ {{
            if ($server_of_party = "") {{
                return 404 '{{"code": 404, "message": "The cluster has no party $http_dest_party_id."}}';
            }}
            proxy_pass http://$server_of_party;
            proxy_http_version 1.1;
            proxy_connect_timeout 5s;
            proxy_read_timeout 600s;
            proxy_send_timeout 600s;
        }}
        location / {{
            return 403 '{{"code": 403, "message": "Parties may ask for /v2/partner/ and /v2/scheduler/ only."}}';
        }}
    }}
}}
"""


@dataclass(frozen=True)
class Router:
    """nginx in `folder`; `servers` is party id -> HTTP port."""

    folder: Path
    port: int
    servers: Mapping[str, int]
    name: str = "router"

    def status(self) -> PieceStatus:
        return status_of(self.name, f"{HOST}:{self.port}", self._processes(), self.answers)

    def answers(self) -> bool:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(f"http://{HOST}:{self.port}/router", timeout=ANSWER_SECONDS) as response:
                return response.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def start(self, progress: Callable[[str], None]) -> None:
        self.stop()
        make_private_folder(self.folder)
        configuration, log = self.folder / "nginx.conf", self.folder / "router.log"
        replace_file(configuration, self._configuration().encode())
        progress(f"The router starts at {HOST}:{self.port}.")
        command = [router_program(), "-p", str(self.folder), "-c", str(configuration), "-e", "stderr"]
        process = start_detached(command, self.folder, {"PATH": os.environ.get("PATH", os.defpath)}, log)
        if not wait_until(self.answers, lambda: process.poll() is None, START_SECONDS):
            failure = failed_start(self.name, process, START_SECONDS, log)
            self.stop()
            raise failure

    def stop(self) -> int:
        return end_all(self._processes)

    def _configuration(self) -> str:
        # Started by root, nginx would give its worker to an account that cannot enter this folder.
        user = f"user {pwd.getpwuid(0).pw_name};\n" if os.geteuid() == 0 else ""
        routes = "\n".join(f'        "{party_id}" {HOST}:{port};' for party_id, port in self.servers.items())
        return CONFIGURATION.format(user=user, folder=self.folder, routes=routes, host=HOST, port=self.port)

    def _processes(self) -> list:
        return router_processes(self.folder)


def router_processes(folder: Path) -> list:
    """nginx overwrites the environment that would mark its processes, but all stay in the folder they began in."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.name() == "nginx" and process.cwd() == str(folder):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
