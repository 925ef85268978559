"""A docker engine of the tests' own: started in a temporary folder, with images that are kept, and stopped without a trace.

The machine's packet filter, forwarding and other engines are left alone: containers reach each other over bridges, and
nothing but them. What builds need of a network they take from the machine's own (`--network=host`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "dockerd": "docker.io",
    "/usr/bin/docker": "docker.io",
    "debootstrap": "debootstrap",
    "dpkg-deb": "dpkg",
    "openssl": "openssl",
}
BRIDGE = "docker0"
# Of private networks, one that no other engine takes unless it is told to.
BRIDGE_ADDRESS, POOL = "172.31.250.1/24", "base=172.31.0.0/17,size=24"
SECONDS_TO_START, SECONDS_TO_STOP = 90.0, 60.0
# Debian 12 has no compose that reads our files; those of Debian 13 are single programs that run on it.
PLUGINS = {"docker-compose": "docker-compose", "docker-buildx": "docker-buildx"}
PLUGIN_SUITE, KEYRING = "trixie", "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "http://deb.debian.org/debian"


def kept_folder() -> Path:
    """Where images stay for the next run."""
    return Path(os.environ.get("FATE_DP_DOCKER_HOME") or ROOT / "out" / "docker").absolute()


def missing() -> str | None:
    """Why no engine can be started here, in one sentence; None where one can."""
    if os.geteuid() != 0:
        return "Only root can start a docker engine."
    packages = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if packages:
        return f"Missing: {', '.join(packages)}; run `apt-get install --no-install-recommends {' '.join(packages)}`."
    if Path("/sys/class/net", BRIDGE).exists():
        return f"Another engine has the bridge {BRIDGE}; stop it first."
    return None


class Engine:
    """One dockerd and the commands that are given to it."""

    def __init__(self, kept: Path) -> None:
        self.kept = kept
        self._run = Path(tempfile.mkdtemp(prefix="fate-dp-engine-"))
        self.socket = f"unix://{self._run}/socket"
        self._daemon: subprocess.Popen | None = None

    @property
    def log(self) -> Path:
        return self.kept / "dockerd.log"

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DOCKER_HOST": self.socket,
            "DOCKER_CONFIG": str(self.kept / "client"),
            "DOCKER_BUILDKIT": "1",
            "BUILDKIT_PROGRESS": "plain",
        }

    def start(self) -> None:
        """Start the engine, and get the plugins of its client on the first run."""
        self.kept.mkdir(parents=True, exist_ok=True)
        get_plugins(self.kept)
        with self.log.open("wb") as log:
            self._daemon = subprocess.Popen(
                [
                    "dockerd",
                    f"--data-root={self.kept / 'data'}",
                    f"--exec-root={self._run / 'exec'}",
                    f"--pidfile={self._run / 'pid'}",
                    f"--host={self.socket}",
                    "--storage-driver=overlay2",
                    "--exec-opt=native.cgroupdriver=cgroupfs",
                    "--iptables=false",
                    "--ip-forward=false",
                    "--ip-masq=false",
                    f"--bip={BRIDGE_ADDRESS}",
                    f"--default-address-pool={POOL}",
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + SECONDS_TO_START
        while self.docker("version", check=False).returncode != 0:
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise EngineFailed(f"dockerd does not start; its log {self.log} ends: {self.log.read_text()[-600:]}")
            time.sleep(0.5)
        self.remove_left_over()

    def remove_left_over(self) -> None:
        """Containers, volumes and networks of a run that was cut off; images are kept."""
        containers = self.docker("ps", "--all", "--quiet").stdout.split()
        if containers:
            self.docker("rm", "--force", "--volumes", *containers)
        volumes = self.docker("volume", "ls", "--quiet").stdout.split()
        if volumes:
            self.docker("volume", "rm", "--force", *volumes)
        self.docker("network", "prune", "--force")

    def stop(self) -> None:
        """Stop the engine with all its containers, and take its bridge away."""
        if self._daemon is None:
            return
        if self._daemon.poll() is None:
            self.remove_left_over()
            self._daemon.terminate()
            try:
                self._daemon.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait()
        self._daemon = None
        subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True)
        # The engine leaves its own network namespace mounted.
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in reversed([each for each in mounted if each.startswith(f"{self._run}/")]):
            subprocess.run(["umount", place], capture_output=True)
        shutil.rmtree(self._run, ignore_errors=True)

    def docker(
        self, *words: object, check: bool = True, legacy: bool = False, **more: object
    ) -> subprocess.CompletedProcess:
        """Run a docker command, `legacy` without BuildKit; its output is text."""
        environment = {**self.environment(), "DOCKER_BUILDKIT": "0" if legacy else "1"}
        return run(["/usr/bin/docker", *map(str, words)], environment, check=check, **more)

    def build(self, folder: Path, tag: str, *words: str, file: Path | None = None) -> str:
        """Build an image with the machine's network; returns what the build printed."""
        named = ["--file", str(file)] if file else []
        done = self.docker("build", "--network=host", "--tag", tag, *named, *words, folder, timeout=1500)
        return done.stdout + done.stderr

    def has_image(self, tag: str) -> bool:
        return self.docker("image", "inspect", tag, check=False).returncode == 0

    def inspect(self, name: str) -> dict:
        return json.loads(self.docker("inspect", name).stdout)[0]

    def state(self, name: str) -> dict:
        return self.inspect(name)["State"]

    def health(self, name: str) -> str:
        return self.state(name).get("Health", {}).get("Status", "none")

    def wait_for_health(self, name: str, wanted: str = "healthy", seconds: float = 240) -> None:
        """Wait until a container's own check says so."""
        deadline = time.monotonic() + seconds
        while (found := self.health(name)) != wanted:
            if time.monotonic() > deadline:
                told = self.docker("logs", "--tail", 40, name, check=False)
                raise EngineFailed(f"{name} is {found} after {seconds:.0f} s: {(told.stdout + told.stderr)[-1500:]}")
            time.sleep(1.0)


class EngineFailed(AssertionError):
    """An engine, a build or a container did not do what it had to."""


def run(
    command: list, environment: dict, check: bool = True, timeout: float = 900, **more: object
) -> subprocess.CompletedProcess:
    """Run a command to its end, with all that it printed in the failure."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, **more)
    if check and done.returncode != 0:
        told = (done.stdout + done.stderr)[-3000:]
        raise EngineFailed(f"{' '.join(map(str, command))} ended with {done.returncode}: {told}")
    return done


def get_plugins(kept: Path) -> None:
    """Compose and buildx beside the client's configuration; the machine's own packages stay as they are."""
    plugins = kept / "client" / "cli-plugins"
    if all((plugins / name).exists() for name in PLUGINS):
        return
    folder = Path(tempfile.mkdtemp(prefix="fate-dp-plugins-"))
    try:
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} {PLUGIN_SUITE} main\n")
        apt = [
            "apt-get",
            "-qq",
            f"-oDir::Etc::sourcelist={folder / 'sources.list'}",
            "-oDir::Etc::sourceparts=-",
            f"-oDir::State::lists={folder / 'lists'}",
            f"-oDir::Cache={folder}",
        ]
        run([*apt, "update"], dict(os.environ))
        run([*apt, "download", *PLUGINS.values()], dict(os.environ), cwd=folder)
        for package in folder.glob("*.deb"):
            run(["dpkg-deb", "-x", str(package), str(folder / "unpacked")], dict(os.environ))
        plugins.mkdir(parents=True, exist_ok=True)
        for name in PLUGINS:
            (found,) = (folder / "unpacked").rglob(f"cli-plugins/{name}")
            shutil.copy2(found, plugins / name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
