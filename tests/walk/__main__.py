"""`make walk`: every block of README, tutorial and how-tos, in order and as printed, in a clone of this checkout.

The clone has this checkout's packages (`--bare` has `make install` bring its own, which takes gigabytes), an embedded
FATE-Flow of its own, and, as the files that a reader brings, `loans.csv` and `payments.csv`, `bank.csv` and `shop.csv`.
`JOB_ID` is the newest job's and `PORT` the server's. Lines of a policy hold at all parties until their page ends. The last
line is one JSON object with the seconds of each page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import yaml

from tests import bank_files
from tests.support.page_blocks import COMMANDS, PAGES, POLICY, PYTHON, ROOT, SHOWN, Block, blocks
from tests.support.wheels import PARTS

RUNNER = """
import json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "block", "exec"), names)
        print("\\x00done", flush=True)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        print("\\x00failed", flush=True)
"""
PATIENCE = 1800
ROWS = 2000


class BlockFailed(Exception):
    """A block did not run to its end; the message is where it stands and what it said."""


class Walk:
    """A clone, and what its blocks are run with."""

    def __init__(self, folder: Path, bare: bool) -> None:
        self.root = folder / "clone"
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(self.root)], check=True)
        if not bare:
            self._borrow_packages()
        invent_tables(self.root)
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith("FATE_DP_")}
        self.variables.update(HOME=str(folder), PATH=f"{self.root}/.venv/bin:{os.environ['PATH']}", MAKEFLAGS="")

    def _borrow_packages(self) -> None:
        """Our environment, whose FATE-DP is the clone's: an install brings nothing more."""
        ours, theirs = ROOT / ".venv", self.root / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(theirs)], check=True)
        (site,) = theirs.glob("lib/python3*/site-packages")
        (site / "borrowed.pth").write_text(f"{next(ours.glob('lib/python3*/site-packages'))}\n")
        (site / "fate_dp").mkdir()
        for name in PARTS:
            (site / "fate_dp" / name).symlink_to(self.root / name)
        for program in (ours / "bin").iterdir():
            own = theirs / "bin" / program.name
            if not own.exists() and program.is_file() and program.read_bytes()[:2] == b"#!":
                text = program.read_text("utf-8", "replace").replace(str(ours), str(theirs))
                own.write_text(text)
                own.chmod(0o755)
        for folder in ("crypto", "components/dp_homo_nn"):
            for library in (ROOT / folder).glob("*.so"):
                shutil.copy2(library, self.root / folder)
        for stamp in (".installed", ".tested"):
            (theirs / stamp).touch()

    def play(self, page: Path) -> float:
        """Seconds of a page."""
        begun = time.perf_counter()
        subprocess.run(["fate-dp", "up"], cwd=self.root, env=self.variables, capture_output=True, check=False)
        try:
            self._run_all(blocks(page))
        finally:
            # Its own lines alone: what its commands declared is there for the pages that follow.
            lines = [yaml.safe_load(block.text) for block in blocks(page) if block.language == POLICY]
            self._set_policies({name: None for each in lines for name in each})
        return time.perf_counter() - begun

    def _set_policies(self, given: dict[str, object]) -> None:
        """Give the policies of all parties these settings; None takes one away."""
        for path in self.root.glob(".fate-dp/parties/party-*/policy.yaml") if given else ():
            settings = (yaml.safe_load(path.read_text("utf-8")) or {}) | given
            kept = {name: value for name, value in settings.items() if value is not None}
            path.write_text(yaml.safe_dump(kept, allow_unicode=True), encoding="utf-8")

    def _run_all(self, found: list[Block]) -> None:
        with subprocess.Popen(
            [str(self.root / ".venv/bin/python"), "-u", "-c", RUNNER],
            cwd=self.root,
            env=self.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as session:
            for block in found:
                self._run(block, session)
            session.stdin.close()

    def _run(self, block: Block, session: subprocess.Popen) -> None:
        said: list[str] = []
        if block.language == COMMANDS:
            for command in block.commands:
                done = subprocess.run(
                    ["bash", "-c", self._filled(command)],
                    cwd=self.root,
                    env=self.variables,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    text=True,
                    timeout=PATIENCE,
                )
                if done.returncode:
                    self._fail(block, f"$ {command}\n{done.stdout[-2000:]}\nexit status {done.returncode}")
        elif block.language == PYTHON:
            session.stdin.write(json.dumps(block.text) + "\n")
            session.stdin.flush()
            for line in session.stdout:
                if line.startswith("\x00"):
                    break
                said.append(line)
            if line != "\x00done\n":
                self._fail(block, "".join(said)[-3000:])
        elif block.language == POLICY:
            self._set_policies(yaml.safe_load(block.text))
        elif block.language != SHOWN:
            self._fail(block, f"{block.language or 'no'} language: tag it bash, python, yaml or text")

    def _fail(self, block: Block, said: str) -> None:
        raise BlockFailed(f"{block.page.relative_to(ROOT)}:{block.line}: {said}")

    def _filled(self, command: str) -> str:
        """With the newest job's id and the server's port, which no page can know."""
        jobs = [each.name for each in self.root.glob(".fate-dp/**/jobs/*") if each.name.isdigit()]
        filled = command.replace("JOB_ID", max(jobs, default="JOB_ID"))
        if "PORT" in filled:
            status = subprocess.run(
                ["fate-dp", "status"], cwd=self.root, env=self.variables, capture_output=True, text=True
            )
            filled = filled.replace("PORT", re.search(r":(\d+)", status.stdout)[1])
        return filled

    def stop(self) -> None:
        with suppress(OSError):
            subprocess.run(["fate-dp", "down"], cwd=self.root, env=self.variables, capture_output=True, check=False)


def invent_tables(folder: Path) -> None:
    """Two parties' tables of the same customers, and a bank's and a shop's, with the columns that the pages name."""
    draws = np.random.default_rng(7)
    columns = {
        "age": draws.integers(18, 90, ROWS),
        "sex": draws.integers(1, 3, ROWS),
        "income": draws.lognormal(10, 0.5, ROWS).round(),
    }
    score = (columns["income"] / 30_000) - columns["age"] / 50 + draws.normal(size=ROWS)
    own = {"y": (score < 0).astype(int), **columns}
    others = {f"x{index}": (draws.normal(size=ROWS) + 0.3 * score).round(3) for index in range(24)}
    for name, table in (("loans", own), ("payments", others)):
        lines = [",".join(["id", *table])]
        lines += [",".join(map(str, [f"c{row}", *(values[row] for values in table.values())])) for row in range(ROWS)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    bank_files.write(folder)


def main(arguments: list[str]) -> int:
    bare = "--bare" in arguments
    names = [each for each in arguments if not each.startswith("--")]
    pages = [page for page in PAGES if not names or page.stem in names]
    seconds, failed = {}, 0
    with tempfile.TemporaryDirectory(prefix="fate-dp-walk-") as folder:
        walk = Walk(Path(folder), bare)
        try:
            for page in pages:
                try:
                    seconds[page.stem] = round(walk.play(page), 1)
                    print(f"{page.relative_to(ROOT)}: {len(blocks(page))} blocks, {seconds[page.stem]} s", flush=True)
                except BlockFailed as failure:
                    failed += 1
                    print(failure, flush=True)
        finally:
            walk.stop()
    print(f"{len(seconds)} passed, {failed} failed in {sum(seconds.values()):.2f}s")
    print(json.dumps({"bench": "walk", "figures": {"pages": len(seconds), "failed": failed, "seconds": seconds}}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
