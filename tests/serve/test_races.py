"""Which reports of the thread sanitizer are ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.races import accesses, main

HEAD = "==================\nWARNING: ThreadSanitizer: data race (pid=1)\n"
GRPC = "    #0 grpc_core::Arena::~Arena() <null> (libgrpc.so.29+0x44178a)\n"
HANDLER = "    #1 ModelInfer /src/cpp/serve/grpc_server.cc:187 (aot-serve+0x8bca9)\n"
NEW = "    #0 operator new(unsigned long) ../libsanitizer/tsan/tsan_new_delete.cpp:64\n"
FREED = "    #0 operator delete(void*) ../libsanitizer/tsan/tsan_new_delete.cpp:150\n"
STD = "    #1 std::_Sp_counted_base::_M_release() /usr/include/c++/12/shared_ptr_base.h:317\n"
OURS = "    #2 serve::Ticket::~Ticket() /src/cpp/serve/service.h:30 (aot-serve+0x1)\n"
GENERATED = "    #0 inference::X::Clear() /src/build/cpp/serve/open_inference.pb.cc:30\n"


def report(one: str, other: str) -> str:
    return (
        f"{HEAD}  Write of size 8 at 0x7b by thread T7:\n{one}\n"
        f"  Previous read of size 8 at 0x7b by thread T8 (mutexes: write M1):\n{other}\n"
        f"  Location is heap block:\n{HANDLER}==================\n"
    )


@pytest.mark.parametrize(
    ("one", "other", "status"),
    [
        (GRPC + HANDLER, GRPC, 0),
        (GRPC, NEW + HANDLER, 0),
        (GENERATED, GRPC, 0),
        (FREED + STD + OURS, GRPC, 1),
        (GRPC, OURS, 1),
    ],
)
def test_a_race_is_ours_where_our_code_made_an_access(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], one: str, other: str, status: int
) -> None:
    log = tmp_path / "races.1"
    log.write_text(report(one, other))
    assert main([str(log)]) == status
    assert capsys.readouterr().out.endswith(f"1 reports, {status} of our accesses\n")


def test_what_is_no_race_of_two_accesses_is_ours(tmp_path: Path) -> None:
    log = tmp_path / "races.1"
    log.write_text(HEAD.replace("data race", "lock-order-inversion"))
    assert accesses(log.read_text()) == []
    assert main([str(log)]) == 1
