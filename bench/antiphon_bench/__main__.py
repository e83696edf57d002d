"""``python -m antiphon_bench`` is ``antiphon bench``, also where neither is installed."""

import sys

from antiphon.cli.main import app
from antiphon_bench.commands.app import app as bench

app.add_typer(bench, name="bench")
sys.argv.insert(1, "bench")  # reports contain the command
app(prog_name="antiphon")
