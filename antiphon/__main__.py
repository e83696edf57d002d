"""``python -m antiphon`` is the command line."""

from antiphon.cli.main import app

app()
