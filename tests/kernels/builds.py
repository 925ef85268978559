"""The native kernels, built by setup.py once more: with sanitizers, and for any processor with a look at bounds."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = ("crypto._montgomery", "components.dp_homo_nn._records")
SANITIZERS = "-fsanitize=address,undefined,float-cast-overflow"
# For all files, and for those of crypto/native besides; both come after what an extension asks for. Without -O3, since GCC takes
# minutes for the checks of what that unrolls.
EMULATED = f"-Wno-psabi -I{Path(__file__).parent / 'emulated'}"
VARIANTS = {
    "sanitized": (f"-O0 -g -w {SANITIZERS}", ""),
    "emulated": ("-O1 -w", EMULATED),
    "emulated-sanitized": ("-O1 -g -w -fsanitize=address", EMULATED),
}


class Missing(RuntimeError):
    """What the check needs is not on this machine; the sentence says what, and where it comes from."""


def build(variant: str, folder: Path) -> None:
    """Both modules in ``folder``, with setup.py's sources and flags and those of the variant behind them."""
    folder.mkdir(parents=True)
    compiler, (flags, of_crypto) = folder / "cc", VARIANTS[variant]
    script = f'case "$*" in *crypto/native/*) set -- "$@" {of_crypto};; esac\nexec {_compiler()} "$@" {flags}\n'
    compiler.write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
    compiler.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in ("CFLAGS", "LDFLAGS")}
    environment |= {"CC": str(compiler), "LDSHARED": f"{compiler} -shared"}
    places = ["--build-lib", str(folder), "--build-temp", str(folder / "objects")]
    command = [sys.executable, "setup.py", "-q", "build_ext", "-j", "2", *places]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    # Extensions are optional for setup.py, which goes on without them.
    if done.returncode or len(libraries(folder)) < len(MODULES):
        raise Missing(f"the {variant} build failed: {done.stdout[-2000:]}")


def libraries(folder: Path) -> list[Path]:
    """The files of `MODULES` that a build has made; a module without one is left out."""
    found = [sorted((folder / "fate_dp").glob(name.replace(".", "/") + ".*so")) for name in MODULES]
    return [files[0] for files in found if files]


def use(folder: Path) -> None:
    """Put a build in the place of the installed modules, for this process and before a kernel is looked up."""
    for name, path in zip(MODULES, libraries(folder), strict=True):
        spec = importlib.util.spec_from_file_location(f"fate_dp.{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[spec.name] = module


def supported_library() -> ctypes.CDLL | None:
    """The kernel of products and points that this process uses, without the check at its start; None without AVX-512 IFMA."""
    try:
        library = ctypes.CDLL(importlib.import_module(f"fate_dp.{MODULES[0]}").__file__)
    except ImportError as error:
        raise Missing(
            f"the native kernels are not installed ({error}): make install, where there is a compiler."
        ) from None
    return library if library.kernel_supported() else None


def sanitizer_library() -> str:
    """What a program that does not know of sanitizers must load first."""
    found = subprocess.run([_compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(found):
        raise Missing(f"The compiler {_compiler()} has no libasan; Debian's gcc brings it in libgcc-*-dev.")
    return found


def _compiler() -> str:
    for name in (os.environ.get("CC"), "gcc", (sysconfig.get_config_var("CC") or "").split(" ")[0]):
        if name and (path := shutil.which(name)):
            return path
    raise Missing("There is no C compiler; on Debian: apt install gcc.")
