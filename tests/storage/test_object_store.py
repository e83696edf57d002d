"""Media in S3, by an S3-compatible server (moto): whole or absent, signed, and honest about faults.

Skipped where s3fs or moto is not installed.
"""

import time
from collections.abc import Generator

import httpx
import pytest

from antiphon.contracts.types import OPERATOR
from antiphon.storage.blobs import BlobStore
from antiphon.storage.errors import StorageError, UnknownMediaError
from antiphon.storage.media import MediaLimits, MediaStore

s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed; the 'test' extra brings it")
server = pytest.importorskip(
    "moto.server", reason="moto.server is not installed; the 'test' extra brings it"
)
boto3 = pytest.importorskip("boto3", reason="boto3 is not installed; the 'test' extra brings it")

BUCKET = "antiphon"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore.*")


@pytest.fixture(scope="module")
def endpoint() -> Generator[str, None, None]:
    """The address of a server that speaks S3, with a bucket."""
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield f"http://{host}:{port}"
    running.stop()


def test_a_file_is_kept_and_fetched(endpoint: str) -> None:
    store = MediaStore(BlobStore(f"s3://{BUCKET}/media"), MediaLimits(retention_s=60))
    content = bytes(range(256)) * 5000
    key = store.put(content, "png", "alice")
    assert store.find(key, OPERATOR).num_bytes == len(content)
    assert b"".join(store.read(key, 0, len(content))) == content
    assert b"".join(store.read(key, 1000, 1003)) == content[1000:1003]
    later = MediaStore(
        BlobStore(f"s3://{BUCKET}/media"), MediaLimits(retention_s=60), lambda: time.time() + 61
    )
    assert later.sweep() == 1
    with pytest.raises(UnknownMediaError):
        store.find(key, OPERATOR)


def test_a_signed_address_needs_no_key(endpoint: str) -> None:
    store = MediaStore(BlobStore(f"s3://{BUCKET}/signed"), MediaLimits(signed_url_s=60))
    key = store.put(b"content", "png", None)
    url = store.url(key, "http://unused/")
    assert key in url
    assert "Signature" in url
    assert httpx.get(url).content == b"content"


def test_a_bucket_that_is_not_there_is_a_fault_of_the_storage(endpoint: str) -> None:
    store = MediaStore(BlobStore("s3://no-such-bucket/media"), MediaLimits())
    with pytest.raises(StorageError):
        store.put(b"content", "png", None)


def test_a_storage_that_cannot_be_reached_is_a_fault_of_the_storage(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()  # which have found the server already
    store = MediaStore(BlobStore(f"s3://{BUCKET}/unreachable"), MediaLimits())
    with pytest.raises(StorageError, match="cannot be used"):
        store.put(b"content", "png", None)
