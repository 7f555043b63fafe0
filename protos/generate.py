"""Regenerate ``lance_core/proto/*_pb2.py`` and ``*_pb2.pyi`` from ``protos/*.proto``.

    python protos/generate.py            write the modules
    python protos/generate.py --check    exit 1 and list differences if they are stale

Works from any directory. The compiler is pinned: generated code refuses to import under a
protobuf runtime older than the compiler that made it, so the pin is the oldest compiler whose
output all supported runtimes accept.
"""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Final

REQUIRED_GRPCIO_TOOLS: Final = "1.76.0"
"""Ships protoc 31.1; its output imports under protobuf runtimes from 6.31.1 on."""

VIRTUAL_DIR: Final = "lance_core/proto"
"""Path under which the files import each other and register in the descriptor pool.

A flat ``table.proto`` would collide with any other package that registers that name.
"""

PROTO_DIR: Final = Path(__file__).resolve().parent
ROOT_DIR: Final = PROTO_DIR.parent
OUTPUT_DIR: Final = ROOT_DIR / VIRTUAL_DIR

GENERATED_PATTERNS: Final = ("*_pb2.py", "*_pb2.pyi")
MAX_DIFF_LINES: Final = 40
"""Lines of difference shown per file; the rest of a long diff says nothing new."""


def compiler_problem() -> str | None:
    """Say what to install, or return None if the pinned compiler is installed."""
    install = f'install it with: python -m pip install "grpcio-tools=={REQUIRED_GRPCIO_TOOLS}"'
    try:
        found = metadata.version("grpcio-tools")
    except metadata.PackageNotFoundError:
        return f"grpcio-tools {REQUIRED_GRPCIO_TOOLS} is needed but not installed; {install}"
    if found != REQUIRED_GRPCIO_TOOLS:
        return f"grpcio-tools {REQUIRED_GRPCIO_TOOLS} is needed but {found} is installed; {install}"
    return None


def compile_protos(target_dir: Path) -> dict[str, bytes]:
    """Compile every ``protos/*.proto`` below ``target_dir``.

    Returns:
        Content of each generated module by file name, in name order.

    Raises:
        subprocess.CalledProcessError: the compiler rejected a file; ``stderr`` says why.
    """
    sources = sorted(path.name for path in PROTO_DIR.glob("*.proto"))
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{VIRTUAL_DIR}={PROTO_DIR}",
        f"--python_out={target_dir}",
        f"--pyi_out={target_dir}",
        *(f"{VIRTUAL_DIR}/{name}" for name in sources),
    ]
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=target_dir)
    return read_generated(target_dir / VIRTUAL_DIR)


def read_generated(directory: Path) -> dict[str, bytes]:
    """Return the content of the generated modules in ``directory`` by file name."""
    paths = sorted(path for pattern in GENERATED_PATTERNS for path in directory.glob(pattern))
    return {path.name: path.read_bytes() for path in paths}


def describe_differences(committed: dict[str, bytes], fresh: dict[str, bytes]) -> list[str]:
    """Compare committed modules with fresh ones; an empty list means that they are equal."""
    lines: list[str] = []
    for name in sorted(committed.keys() | fresh.keys()):
        if name not in fresh:
            lines.append(f"{VIRTUAL_DIR}/{name}: no .proto file generates it")
        elif name not in committed:
            lines.append(f"{VIRTUAL_DIR}/{name}: missing")
        elif committed[name] != fresh[name]:
            lines.append(f"{VIRTUAL_DIR}/{name}: stale")
            diff = difflib.unified_diff(
                committed[name].decode(errors="replace").splitlines(),
                fresh[name].decode(errors="replace").splitlines(),
                "committed",
                "regenerated",
                lineterm="",
                n=1,
            )
            shown = [f"    {line[:160]}" for line in diff]
            lines += shown[:MAX_DIFF_LINES]
            if len(shown) > MAX_DIFF_LINES:
                lines.append(f"    ... {len(shown) - MAX_DIFF_LINES} more lines")
    return lines


def write_modules(fresh: dict[str, bytes], output_dir: Path = OUTPUT_DIR) -> list[str]:
    """Make ``output_dir`` hold exactly the fresh modules; return the names that changed."""
    committed = read_generated(output_dir)
    output_dir.mkdir(parents=True, exist_ok=True)
    changed = [name for name, content in fresh.items() if committed.get(name) != content]
    for name in changed:
        (output_dir / name).write_bytes(fresh[name])
    orphaned = sorted(committed.keys() - fresh.keys())
    for name in orphaned:
        (output_dir / name).unlink()
    return sorted(changed + orphaned)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status (0 done or fresh, 1 stale, 2 cannot run)."""
    parser = argparse.ArgumentParser(description="Regenerate the protobuf modules.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if a module is stale")
    options = parser.parse_args(arguments)

    problem = compiler_problem()
    if problem is not None:
        sys.stderr.write(f"{problem}\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="lance-protos-") as target:
        try:
            fresh = compile_protos(Path(target))
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"protoc failed:\n{error.stderr}")
            return 2

    if options.check:
        differences = describe_differences(read_generated(OUTPUT_DIR), fresh)
        if differences:
            sys.stderr.write("\n".join(differences) + "\n")
            sys.stderr.write("Run: python protos/generate.py\n")
            return 1
        sys.stdout.write(f"{len(fresh)} generated modules are up to date\n")
        return 0

    changed = write_modules(fresh)
    sys.stdout.write(f"{len(fresh)} generated modules, {len(changed)} changed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
