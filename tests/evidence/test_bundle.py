"""Opening what people hand over: odd kinds of files, links, rotated and compressed logs. Nothing outside of a bundle is read, nothing is waited for."""

import gzip
import os
import threading
from pathlib import Path

import pytest

from bot.errors import BadInput
from bot.evidence.bundle import open_path
from bot.gap_words import reason, tells
from bot.model import Bundle

LINE = b"INFO 11-30 09:00:00 [api_server.py:1351] vLLM API server version 0.11.0\n"


def content(bundle: Bundle, name: str) -> bytes:
    with bundle.files[name].open() as stream:
        return stream.read()


def gaps(bundle: Bundle) -> dict[str, str]:
    return {gap.source: gap.reason for gap in bundle.gaps}


def test_a_link_that_points_outside_of_the_bundle_is_a_gap(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"root:x:0\n")
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "container.log").symlink_to(tmp_path / "secret")
    (bundle / "kernel.log").symlink_to("/etc/passwd")
    found = open_path(str(bundle))
    assert found.files == {}
    assert gaps(found) == {"container.log": "points outside of the bundle", "kernel.log": "points outside of the bundle"}


def test_a_link_inside_of_the_bundle_is_followed(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(LINE)
    (tmp_path / "container.log").symlink_to("0.log")
    assert content(open_path(str(tmp_path)), "container.log") == LINE


def test_a_bundle_behind_a_link_is_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "container.log").write_bytes(LINE)
    (tmp_path / "link").symlink_to("real")
    assert content(open_path(str(tmp_path / "link")), "container.log") == LINE


def test_links_to_nothing_and_in_a_circle_are_gaps(tmp_path: Path) -> None:
    (tmp_path / "container.log").symlink_to("gone")
    (tmp_path / "kernel.log").symlink_to("previous.log")
    (tmp_path / "previous.log").symlink_to("kernel.log")
    assert set(gaps(open_path(str(tmp_path))).values()) == {"points to nothing"}


def test_a_pipe_and_a_folder_in_a_bundle_are_gaps_and_nobody_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "container.log")
    (tmp_path / "kernel.log").mkdir()
    assert gaps(open_path(str(tmp_path))) == {"container.log": "is not a file", "kernel.log": "is a folder"}


def test_a_pipe_by_its_own_path_is_read_once_and_kept(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(LINE * 1000))
    writer.start()
    bundle = open_path(str(pipe))
    writer.join()
    assert content(bundle, "container.log") == content(bundle, "container.log") == LINE * 1000


def test_a_device_is_refused_in_one_line() -> None:
    with pytest.raises(BadInput, match="neither a file nor a folder"):
        open_path("/dev/zero")


@pytest.mark.parametrize("name", ["server.log.1.gz", "server.log.1", "container.log.gz", "odd"])
def test_a_rotated_log_by_its_own_path_is_a_log(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(LINE))
    assert content(open_path(str(tmp_path / name)), "container.log") == LINE


def test_rotated_logs_of_a_bundle_are_read(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("a.log", "a.log.1", "a.log.2.gz", "notes.txt"):
        (tmp_path / "logs" / name).write_bytes(gzip.compress(LINE) if name.endswith("gz") else LINE)
    found = open_path(str(tmp_path))
    assert sorted(found.files) == ["logs/a.log", "logs/a.log.1", "logs/a.log.2.gz"]
    assert content(found, "logs/a.log.2.gz") == LINE


def test_of_rotated_logs_the_newest_that_is_not_empty_is_the_servers(tmp_path: Path) -> None:
    (tmp_path / "container.log").write_bytes(b"")
    (tmp_path / "container.log.1").write_bytes(LINE)
    (tmp_path / "container.log.2.gz").write_bytes(gzip.compress(LINE * 2))
    found = open_path(str(tmp_path))
    assert content(found, "container.log") == LINE
    assert found.files["container.log"].name == "container.log.1"


def test_a_log_that_is_not_empty_stands_before_its_rotated_ones(tmp_path: Path) -> None:
    (tmp_path / "container.log").write_bytes(LINE * 3)
    (tmp_path / "container.log.1").write_bytes(LINE)
    assert content(open_path(str(tmp_path)), "container.log") == LINE * 3


def test_a_folder_of_folders_says_that_one_of_them_is_to_be_given(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert gaps(open_path(str(tmp_path)))["container.log"] == "no evidence file in it, only folders: one, two"


def test_an_archive_and_an_empty_path_are_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "logs.zip").write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(BadInput, match="unpack it"):
        open_path(str(tmp_path / "logs.zip"))
    with pytest.raises(BadInput, match="a path is empty"):
        open_path("")


def test_what_is_said_of_a_folder_of_folders_is_said_in_chinese_too(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    gap = open_path(str(tmp_path)).gaps[0]
    assert (reason(gap, "zh"), tells(gap, "zh")) == ("没有证据文件，只有文件夹：one", "服务的输出；请给出其中一个或几个文件夹")


@pytest.mark.parametrize(
    "text",
    ["[  812.101000] nvme nvme0: controller is down; will reset\n[  812.102000] reboot: Restarting system\n", "Jan 14 09:31:07 node-a kernel: reboot: Restarting system\n"],
)
def test_single_file_whose_first_lines_are_the_kernels_is_read_as_its_log(tmp_path: Path, text: str) -> None:
    (tmp_path / "what.txt").write_text(text)
    assert set(open_path(str(tmp_path / "what.txt")).files) == {"kernel.log"}
    (tmp_path / "what.txt").write_text("INFO starting\n" + text)
    assert set(open_path(str(tmp_path / "what.txt")).files) == {"container.log"}
