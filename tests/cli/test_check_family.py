"""``antiphon dev check-family`` says what it cannot check; tests of new families run the rest."""

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody",), "Unknown model 'nobody'"),
        (("ovis_image",), "'ovis_image' does not speak: its tasks are image."),
        (("toy", "--checkpoint", "no/such/folder"), "There is no directory"),
    ],
)
def test_what_cannot_be_checked_is_said(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("dev", "check-family", *arguments)
    assert done.exit_code == 1
    assert message in done.stderr
