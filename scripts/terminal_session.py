"""A recorded terminal session for the documentation, made of real runs: docs/assets/terminal.svg.

    .venv/bin/python scripts/terminal_session.py

Each command runs in a terminal of its own (a pty), in an empty folder. What it wrote is drawn by
rich, without fonts of other servers.
"""

import os
import pty
import re
import select
import shlex
import signal
import struct
import sys
import tempfile
from fcntl import ioctl
from io import StringIO
from pathlib import Path
from termios import TIOCSWINSZ

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "assets" / "terminal.svg"
COLUMNS = 88
TIMEOUT_S = 120.0
COMMANDS = (
    'antiphon say "Hello there." -o hello.mp3',
    "antiphon voices",
    'antiphon say "Hello there." --voice hart -o hello.mp3',
    "antiphon serve --port 8000",
)
_STOP_AT = b"Ctrl-C"
"""What a server writes once it listens."""
_CONTROL = re.compile(r"\r?\n|\r|\x1b\[(\d*)([A-Za-z])|\x1b\[\?25[lh]")
_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def run(command: str, folder: str) -> str:
    """Run a command in a terminal; return all that it wrote there."""
    words = shlex.split(command)
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        environment = {**kept, "HOME": folder, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        program = [sys.executable, "-m", "antiphon", *words[1:]]
        os.execve(sys.executable, program, environment)
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    written = b""
    try:
        while select.select([terminal], [], [], TIMEOUT_S)[0]:
            written += os.read(terminal, 4096)
            if _STOP_AT in written:
                break
    except OSError:  # the process has ended
        pass
    os.kill(process, signal.SIGINT)
    os.waitpid(process, 0)
    os.close(terminal)
    return written.decode()


def screen(written: str) -> list[str]:
    """Return the lines that stay on a terminal, with their colours."""
    lines, row, at = [""], 0, 0
    for control in _CONTROL.finditer(written):
        lines[row] += written[at : control.start()]
        at = control.end()
        if control[0].endswith("\n"):
            row += 1
            lines += [""] * (row == len(lines))
        elif control[2] == "A":
            row = max(0, row - int(control[1] or 1))
        elif control[2] == "K":
            lines[row] = ""
        elif control[2] is not None and control[2] != "H":
            lines[row] += control[0]
    lines[row] += written[at:]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def main() -> None:
    """Run the commands and write the drawing."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, command in enumerate(COMMANDS):
            console.print(
                *([""] if number else []), f"[bold green]$[/] [bold]{command}[/]", sep="\n"
            )
            for line in screen(run(command, folder)):
                console.print(Text.from_ansi(line))
    drawing = console.export_svg(title="antiphon", theme=MONOKAI, unique_id="session")
    FILE.write_text(_FONTS.sub("", drawing).replace("Fira Code, ", ""), encoding="utf-8")


if __name__ == "__main__":
    main()
