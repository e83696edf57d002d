"""Copies in both directions wait for their turn on the device, and no thread for another."""

import threading

import numpy as np
import pytest
import torch

from antiphon.nn.host_device import Download
from antiphon.nn.packed_upload import PackedUpload


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_copies_wait_for_their_turn_and_any_thread_for_them() -> None:
    device = torch.device("cuda")
    stream, heard = torch.cuda.Stream(device), list[list[float]]()  # type: ignore[no-untyped-call]
    table = torch.zeros(4, device=device)
    torch.cuda.synchronize()
    downloads = []
    with torch.cuda.stream(stream):
        for number in range(20):  # more than are in flight in an engine
            torch.cuda._sleep(10**6)  # type: ignore[no-untyped-call]
            uploads = PackedUpload(device)
            uploads.add(lambda rows: table.copy_(rows.float()), np.full(4, number + 0.5))
            uploads.add(lambda rows: table[:2].add_(rows), np.array([1, 2]))
            uploads.send()
            downloads.append(Download(table))

    def wait() -> None:
        heard.extend(each.wait().tolist() for each in downloads)

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(each.is_done for each in downloads)
    expected = [[n + 1.5, n + 2.5, n + 0.5, n + 0.5] for n in range(20)]
    assert sorted(heard) == sorted(expected * 2)
