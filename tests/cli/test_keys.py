"""`antiphon keys` makes keys, and the hashes that servers know them by."""

from antiphon.api.middleware.keys import hashed, new_key
from tests.cli.conftest import Run


def test_new_keys_are_new_and_come_with_their_hash(run: Run) -> None:
    assert new_key() != new_key()
    done = run("keys", "new")
    told = dict(line.split() for line in done.stdout.splitlines())
    assert hashed(told["key:"]) == told["hash:"]
    assert run("keys", "hash", "--key", told["key:"]).stdout.strip() == told["hash:"]
