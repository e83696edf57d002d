"""Numbers of several owners reach each of them whole, in order, by one copy."""

import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.nn import host_device
from antiphon.nn.host_device import Download, PackedUpload

CPU = torch.device("cpu")


def test_everything_is_written_in_order_by_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    num_uploads = 0
    upload = host_device.upload

    def counted(values: Any, device: torch.device) -> Tensor:
        nonlocal num_uploads
        num_uploads += 1
        return upload(values, device)

    monkeypatch.setattr(host_device, "upload", counted)
    table, heard = torch.zeros(6, dtype=torch.int64), list[Tensor]()
    uploads = PackedUpload(CPU)
    uploads.send()
    assert num_uploads == 0, "there was nothing to send"
    numbers = np.arange(6).reshape(3, 2).T
    third = np.float32(1 / 3)
    uploads.add(table.copy_, np.array([5, 4, 3, 2, 1, 0], np.int32))
    uploads.add(lambda *parts: heard.extend(parts), numbers, np.array([third, -np.inf]))
    uploads.add(lambda index: table.index_fill_(0, index, 9), np.array([1, 3]))
    uploads.add(lambda none: heard.append(none), np.zeros((0, 4), np.int64))
    assert not table.any(), "before it is sent"
    uploads.send()
    assert num_uploads == 1
    assert table.tolist() == [5, 9, 3, 9, 1, 0]
    assert heard[0].tolist() == numbers.tolist()
    assert heard[1].float().tolist() == [third, -np.inf]
    assert heard[2].shape == (0, 4)
    uploads.send()
    assert num_uploads == 1, "what was sent is not sent again"


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
