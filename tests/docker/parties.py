"""Three parties under compose: the project's own files, with free ports and quick checks of health."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import yaml

from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.programs import free_port
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import ENDED

from .engine import Engine, EngineFailed

PARTIES = {"guest": "9999", "host": "10000", "arbiter": "10001"}
START = "/opt/fate-dp/start.sh"
NAMESPACE = "bank"
ROOM_FOR_A_JOB = 900.0
# Compose reads this tag as "instead of", where it would add to the list.
OVERRIDE = "services:\n" + "".join(
    f"  {party}:\n    ports: !override ['127.0.0.1:{{{party}}}:9380']\n    healthcheck: {{{{interval: 5s, retries: 3}}}}\n"
    for party in PARTIES
)


class Parties:
    """The parties of a compose project in a copy of the source tree."""

    def __init__(self, engine: Engine, source: Path) -> None:
        self.engine, self.folder = engine, source / "deploy" / "docker"
        self.ports = {party: free_port() for party in PARTIES}
        (self.folder / "ports.yaml").write_text(OVERRIDE.format(**self.ports))
        self._files = ["compose.yaml"]

    def use(self, *files: str) -> None:
        self._files = list(files)

    def compose(self, *words: object, check: bool = True) -> subprocess.CompletedProcess:
        files = [word for name in [*self._files, "ports.yaml"] for word in ("--file", name)]
        return self.engine.docker("compose", *files, *words, check=check, cwd=self.folder)

    def up(self) -> None:
        self.compose("up", "--detach", "--no-build")
        for party in PARTIES:
            self.engine.wait_for_health(self.name(party))

    def name(self, service: str) -> str:
        return f"fate-dp-{service}-1"

    def inside(self, service: str, *words: object, check: bool = True) -> subprocess.CompletedProcess:
        """What the guide calls `docker compose exec SERVICE start.sh ...`."""
        return self.compose("exec", "--no-TTY", service, START, *words, check=check)

    def findings(self, party: str) -> dict:
        told = json.loads(self.inside(party, "fate-dp", "doctor", "--json", check=False).stdout)
        return {each["check"]: each for each in told["findings"]}

    def upload(self, party: str, file: Path, table: str, *options: str) -> str:
        self.compose("cp", file, f"{party}:/home/fate/{file.name}")
        return self.inside(party, "fate-dp", "upload", file.name, f"{NAMESPACE}/{table}", *options).stdout

    def job(self, source: Path, **tables: str) -> tuple[str, str]:
        """Submit the example job of conf/ on these tables as the guide says it; its id and how it ended."""
        text = (source / "conf" / "label_private_hetero_lr.yaml").read_text()
        text = text.replace("fate_dp_demo", NAMESPACE)
        for old, new in {"guest_train": tables["guest"], "host_train": tables["host"]}.items():
            text = re.sub(rf"\b{old}\b", new, text)
        job = yaml.safe_load(text)
        job["dag"]["tasks"]["dp_hetero_lr_0"]["parameters"]["epochs"] = 2
        (self.folder / "job.yaml").write_text(yaml.safe_dump(job))
        self.compose("cp", "job.yaml", "guest:/home/fate/job.yaml")
        self.inside("guest", "flow", "init", "--ip", "guest", "--port", "9380")
        told = json.loads(self.inside("guest", "flow", "job", "submit", "-c", "job.yaml").stdout)
        if told["code"] != 0:
            raise EngineFailed(f"FATE-Flow refuses the job: {told}")
        return told["job_id"], self.wait_for_job(told["job_id"])

    def wait_for_job(self, job_id: str) -> str:
        client = connect(FlowAddress("127.0.0.1", self.ports["guest"]))
        deadline = time.monotonic() + ROOM_FOR_A_JOB
        while True:
            found = client.job.query(job_id=job_id, role="guest", party_id="9999")
            status = found["data"][0]["status"] if found.get("code") == 0 else "no answer"
            if status in ENDED:
                return status
            if time.monotonic() > deadline:
                raise EngineFailed(f"The job {job_id} is {status} after {ROOM_FOR_A_JOB:.0f} s.")
            time.sleep(2.0)

    def ledger(self, party: str) -> list:
        told = json.loads(self.inside(party, "fate-dp", "ledger", "--json").stdout)
        return told.get(f"party {PARTIES[party]}", {}).get("entries", [])

    def volumes(self, party: str) -> dict[str, Path]:
        """Where the engine keeps each volume of a party."""
        listed = self.engine.docker("volume", "ls", "--quiet").stdout.split()
        names = [name for name in listed if name.startswith(f"fate-dp_{party}-")]
        return {name: Path(self.engine.kept / "data" / "volumes" / name / "_data") for name in names}
