"""Xid lines: formats, meanings, order."""

import re

from bot.evidence.xid import xids
from bot.playbooks import folder, load


def codes(*lines: str) -> list[tuple[int, str]]:
    return [(xid.code, xid.meaning) for xid in xids(list(enumerate(lines, 1)))]


def test_every_printed_form_is_read() -> None:
    assert codes(
        "NVRM: Xid (PCI:0000:17:00): 31, pid=4121, name=VLLM::EngineCor, Ch 00000018",
        "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (0000:03:00): 14, 0000",
        "NVRM: Xid (PCI:0000:19:00 GPU-I:05): 43, pid=77, name=python3, channel 0x00000008",
    ) == [(79, "hardware"), (31, "application"), (43, "application"), (14, "notice")]


def test_follower_and_notice_come_last() -> None:
    lines = ["NVRM: Xid (PCI:0000:17:00): 45, pid=1, name=x, Ch 1", "NVRM: Xid (PCI:0000:17:00): 63, Row Remapper", "NVRM: Xid (PCI:0000:17:00): 13, pid=1, name=x, Graphics"]
    assert codes(*lines) == [(13, "application"), (63, "notice"), (45, "follower")]


def test_shrunken_card_is_its_own_kind() -> None:
    assert codes("NVRM: Xid (PCI:0000:17:00): 168, Reduced GPU memory capacity") == [(168, "capacity")]


def test_same_fault_of_the_same_card_counts_once() -> None:
    line = "NVRM: Xid (PCI:0000:17:00): 94, pid=1, name=x, Contained"
    assert len(codes(*[line] * 50)) == 1


def test_other_driver_lines_are_none() -> None:
    assert codes("NVRM: loading NVIDIA UNIX x86_64 Kernel Module", "NVRM: GPU 0000:17:00.0: RmInitAdapter failed!") == []


def test_fault_that_a_clean_up_only_follows_is_the_one_that_counts() -> None:
    assert codes("NVRM: Xid (PCI:0000:dc:00): 45, pid=18, name=python3, Ch 00000001 caused by previous Xid 149") == [(149, "hardware")]
    assert codes("NVRM: Xid (PCI:0000:dc:00): 45, pid=18, name=python3, Ch 00000010") == [(45, "follower")]


def test_own_line_of_a_fault_is_kept_where_clean_ups_name_it_again() -> None:
    own = "NVRM: Xid (PCI:0000:66:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 11"
    after = "NVRM: Xid (PCI:0000:66:00): 45, pid=18, name=python3, Ch 00000001 caused by previous Xid 145"
    assert [(xid.line, xid.code) for xid in xids([(1, own), (2, after)])] == [(1, 145)]


def test_what_the_driver_asks_for_after_an_error_is_a_fault_and_the_all_clear_is_none() -> None:
    asks = "NVRM: Xid (PCI:0000:66:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    clear = "NVRM: Xid (PCI:0000:67:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    assert codes(asks, clear) == [(154, "hardware"), (154, "notice")]
    own = "NVRM: Xid (PCI:0000:66:00): 168, Reduced GPU memory capacity: 9216 MB unavailable"
    assert codes(asks, own) == [(168, "capacity"), (154, "hardware")]


def test_codes_after_which_only_the_program_starts_anew_are_no_fault_of_the_card() -> None:
    line = "NVRM: Xid (PCI:0000:17:00): {}, pid=1, name=x, Ch 00000008"
    assert {meaning for code in (8, 25, 39, 40, 70, 126, 137, 141) for _, meaning in codes(line.format(code))} == {"application"}
    assert {meaning for code in (46, 62, 95, 109, 119, 120, 140, 143, 158, 167) for _, meaning in codes(line.format(code))} == {"hardware"}


def test_corrected_errors_and_tests_of_the_message_itself_are_notices() -> None:
    line = "NVRM: Xid (PCI:0009:01:00): {}, pid='<unknown>', name=<unknown>, text"
    assert {meaning for code in (92, 93, 106, 121, 162) for _, meaning in codes(line.format(code))} == {"notice"}


def test_messages_for_a_line_in_a_log_take_each_code_for_what_it_is_in_the_kernel_log() -> None:
    kinds = {"hardware": "nvidia.xid", "capacity": "nvidia.xid", "application": "nvidia.xid_of_program", "notice": "nvidia.xid_notice", "follower": "nvidia.xid_notice"}
    patterns = {message.id: message.pattern for message in load(folder()).messages if message.id in kinds.values()}
    for code in range(1, 181):
        line = f"NVRM: Xid (PCI:0000:17:00): {code}, pid=1, name=x, Ch 00000008"
        matching = [name for name, pattern in patterns.items() if re.search(pattern, line)]
        assert (code, matching) == (code, [kinds[xids([(1, line)])[0].meaning]])
