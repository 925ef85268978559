"""Images that stand in for those of registries: built from Debian's packages and from the project's own environment."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from .engine import MIRROR, Engine, run

IMAGES = Path(__file__).parent / "images"
PREFIX = "fate-dp-test"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# What the official images are called for which each stands.
NAMES = {
    "nginx": "nginx:1.26.2",
    "rabbitmq": "rabbitmq:3.13.7-management",
    "python": "python:3.10.16-slim-bookworm",
    "fate": "federatedai/standalone_fate:2.2.0",
}
OURS = "fate-dp:0.2.0"
# Debian 12's Python; the packages of the environment that runs the tests are copied, so it must be the same.
PYTHON = (3, 11)
PROJECT = "data/projects/fate"
# What torch loads only where there is a graphics processor, or for who compiles against it: a quarter of all bytes.
UNUSED = re.compile(r"nvidia/cudnn/lib/libcudnn_|triton/|torch/include/|nvidia/[^/]*/include/")
SECURITY = "http://deb.debian.org/debian-security"
FATE = ("fate_client[fate,fate_flow]", "setuptools<81")


def missing() -> str | None:
    """Why the stand-ins cannot be built here, in one sentence; None where they can."""
    if sys.version_info[:2] != PYTHON:
        return f"The stand-in of FATE's image has Python 3.11, but this is {sys.version_info[0]}.{sys.version_info[1]}."
    try:
        distribution("fate_client")
    except PackageNotFoundError:
        return "FATE is not installed here; run `make install`."
    return None


def build_all(engine: Engine) -> None:
    """Build what is not there yet, or was built from other files; the engine itself remembers most of it."""
    _imported_minbase(engine)
    context = Path(tempfile.mkdtemp(prefix="fate-dp-images-", dir=engine.kept))
    try:
        shutil.copytree(IMAGES, context, dirs_exist_ok=True)
        shutil.copy(CERTIFICATES.resolve(), context / "certificates.crt")
        (context / "sources.list").write_text(
            f"deb {MIRROR} bookworm main\ndeb {MIRROR} bookworm-updates main\ndeb {SECURITY} bookworm-security main\n"
        )
        engine.build(context, f"{PREFIX}/debian:latest", file=context / "debian.Dockerfile")
        for name in ("nginx", "rabbitmq", "python"):
            engine.build(context, NAMES[name], file=context / f"{name}.Dockerfile")
        packages = f"{PREFIX}/packages:{_mark()}"
        if not engine.has_image(packages):
            engine.build(context, f"{PREFIX}/environment:latest", file=context / "packages.Dockerfile")
            import_fate(engine, f"{PREFIX}/environment:latest", packages)
        engine.docker("tag", packages, f"{PREFIX}/packages:latest")
        engine.build(context, NAMES["fate"], file=context / "fate.Dockerfile")
    finally:
        shutil.rmtree(context, ignore_errors=True)


def _mark() -> str:
    """A name for the packages of FATE that are installed here, and for how they are laid out."""
    digest = hashlib.sha256((IMAGES / "packages.Dockerfile").read_bytes() + UNUSED.pattern.encode())
    for each in packages_of(FATE):
        digest.update(f"{each.metadata['Name']}=={each.version}\n".encode())
    return digest.hexdigest()[:16]


def _imported_minbase(engine: Engine) -> None:
    tag = f"{PREFIX}/minbase:latest"
    if engine.has_image(tag):
        return
    root = Path(tempfile.mkdtemp(prefix="fate-dp-debian-", dir=engine.kept))
    try:
        run(["debootstrap", "--variant=minbase", "bookworm", str(root), MIRROR], dict(os.environ))
        import_folder(engine, root, tag)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def import_folder(engine: Engine, root: Path, tag: str) -> None:
    """Make an image of a folder's content."""
    packed = subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE)
    engine.docker("import", "-", tag, stdin=packed.stdout)
    assert packed.wait() == 0


def packages_of(requirements: tuple) -> list[Distribution]:
    """What is installed here of some requirements and of all that they require."""
    found: dict[str, Distribution] = {}
    asked: set = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        key = (re.sub(r"[-_.]+", "-", wanted.name).lower(), frozenset(wanted.extras))
        if key in asked:
            continue
        asked.add(key)
        try:
            each = distribution(wanted.name)
        except PackageNotFoundError:
            continue
        found[key[0]] = each
        for text in each.requires or ():
            inner = Requirement(text)
            contexts = [{"extra": extra} for extra in ("", *wanted.extras)]
            if inner.marker is None or any(inner.marker.evaluate(context) for context in contexts):
                waiting.append(inner)
    return [found[name] for name in sorted(found)]


def import_fate(engine: Engine, base: str, tag: str) -> None:
    """An image of what is in `base` and of FATE's packages, written in one pass: they are gigabytes."""
    container = engine.docker("create", base, "true").stdout.strip()
    settings = [
        word
        for change in ("ENV FATE_PROJECT=/data/projects/fate", "ENV PIP_CERT=/etc/ssl/machine.crt")
        for word in ("--change", change)
    ]
    program = ["/usr/bin/docker"]
    with (
        subprocess.Popen([*program, "export", container], env=engine.environment(), stdout=subprocess.PIPE) as exported,
        subprocess.Popen(
            [*program, "import", *settings, "-", tag], env=engine.environment(), stdin=subprocess.PIPE
        ) as imported,
    ):
        with (
            tarfile.open(fileobj=exported.stdout, mode="r|") as source,
            tarfile.open(fileobj=imported.stdin, mode="w|") as target,
        ):
            for member in source:
                target.addfile(member, source.extractfile(member) if member.isreg() else None)
            written: set[str] = set()
            for path, name in packed_files(packages_of(FATE)):
                # An engine refuses an archive that has a file twice, as nvidia/__init__.py is in many packages.
                if name not in written:
                    target.add(path, name, filter=_as_roots)
                    written.add(name)
        imported.stdin.close()
        assert imported.wait() == 0, f"The image {tag} could not be imported."
    engine.docker("rm", container)


def packed_files(distributions: list[Distribution]) -> Iterator[tuple[Path, str]]:
    """Each file that pip has recorded for some distributions, and its place in FATE's image; scripts of `bin` stay here."""
    for each in distributions:
        for file in each.files or ():
            path = Path(str(each.locate_file(file)))
            place = place_of(str(file))
            if place and path.is_file():
                yield path.resolve(), place


def place_of(file: str) -> str | None:
    """Where FATE's image has a file of site-packages; None where it has none, or only graphics processors use it."""
    if file.startswith(("../", "/")) or file.endswith(".pyc") or UNUSED.match(file):
        return None
    # There FATE's packages lie on PYTHONPATH, and nothing records how they were installed.
    if re.match(r"(pyfate|fate_flow)-[^/]*\.dist-info/", file):
        return None
    if file.startswith("fate_flow/"):
        inside = file.startswith(("fate_flow/conf/", "fate_flow/fateflow.env"))
        return f"{PROJECT}/{file}" if inside else f"{PROJECT}/fate_flow/python/{file}"
    if file.startswith("fate/"):
        return f"{PROJECT}/fate/python/{file}"
    return f"{PROJECT}/env/python/venv/lib/python3.11/site-packages/{file}"


def _as_roots(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def build_ours(engine: Engine, source: Path) -> str:
    """The project's own recipe, unchanged; returns what the build printed."""
    return engine.build(source, OURS, file=source / "deploy" / "docker" / "Dockerfile")
