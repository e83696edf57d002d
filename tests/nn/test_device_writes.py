"""Numbers of several owners reach each of them whole, in order, by one copy."""

import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.nn import device_writes
from antiphon.nn.device_writes import Download, PackedUpload
from tests.nn.many_writes import NUM_ROWS, ManyWrites

CPU = torch.device("cpu")


def test_everything_is_written_in_order_by_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    num_uploads = 0
    upload = device_writes.upload

    def counted(values: Any, device: torch.device) -> Tensor:
        nonlocal num_uploads
        num_uploads += 1
        return upload(values, device)

    monkeypatch.setattr(device_writes, "upload", counted)
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


def test_what_comes_after_reads_all_that_was_sent_with_it() -> None:
    table, heard = torch.zeros(3, 2), list[Any]()
    uploads = PackedUpload(CPU)
    uploads.after(lambda: heard.append(table.tolist()))
    uploads.write(table, np.array([1]), np.array([[4, 5]]))
    uploads.add(lambda numbers: table[0].copy_(numbers), np.array([6, 7]))
    assert not heard, "before it is sent"
    uploads.send()
    assert heard == [[[6, 7], [4, 5], [0, 0]]]
    uploads.after(lambda: heard.append("alone"))
    uploads.send()
    uploads.send()
    assert heard[1:] == ["alone"]


@pytest.mark.parametrize("seed", range(8))
def test_rows_hold_what_was_written_last(seed: int) -> None:
    ManyWrites(CPU, seed).check()


def test_writes_of_different_tensors_are_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[int] = []
    packed_writes = device_writes.packed_writes

    def counted(writes: Any, packing: Any) -> Any:
        launches.append(len(writes))
        return packed_writes(writes, packing)

    monkeypatch.setattr(device_writes, "packed_writes", counted)
    tables = [torch.zeros(NUM_ROWS, 3) for _ in range(3)]
    uploads, rows = PackedUpload(CPU), np.arange(2)
    for table in tables:
        uploads.write(table, rows, np.ones((2, 3)))
    uploads.write(tables[0].view(-1), rows, np.full(2, 5.0))
    uploads.write(tables[1], np.zeros(0), np.zeros((0, 3)))
    uploads.send()
    assert launches == [3, 1], "what was written is written again by a launch of its own"
    assert tables[0][:2].tolist() == [[5, 5, 1], [1, 1, 1]]


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
