import os
import sys
from pathlib import Path

import pytest

from dtsflow.memory.limit import cpu_limit, memory_limit

GIB = 1 << 30


def machine(root: Path, cgroup: str, files: dict[str, str], *, meminfo_kib: int = 64 << 20) -> Path:
    """Make up a Linux machine: the process's groups, and files of the group trees."""
    tree = {
        "proc/meminfo": f"MemTotal:       {meminfo_kib} kB\nMemFree: 1 kB\n",
        "proc/self/cgroup": cgroup,
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def eight_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)


def test_without_groups_memory_is_what_the_machine_has(tmp_path: Path) -> None:
    assert memory_limit(machine(tmp_path, "", {})) == 64 * GIB


def test_the_tightest_level_above_the_process_counts(tmp_path: Path) -> None:
    files = {
        "memory.max": "max\n",
        "jobs/memory.max": f"{3 * GIB}\n",
        "jobs/mine/memory.max": f"{5 * GIB}\n",
        "other/memory.max": "4096\n",
    }
    assert memory_limit(machine(tmp_path, "0::/jobs/mine\n", files)) == 3 * GIB


def test_a_limit_above_physical_memory_changes_nothing(tmp_path: Path) -> None:
    files = {"memory.max": f"{99 * GIB}\n"}
    assert memory_limit(machine(tmp_path, "0::/\n", files)) == 64 * GIB


def test_version_1_groups_count_too(tmp_path: Path) -> None:
    cgroup = "9:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n"
    files = {
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "memory/docker/abc/memory.limit_in_bytes": f"{2 * GIB}\n",
    }
    assert memory_limit(machine(tmp_path, cgroup, files)) == 2 * GIB


def test_a_group_path_of_the_host_falls_back_to_the_root_seen_inside(tmp_path: Path) -> None:
    files = {"memory/memory.limit_in_bytes": f"{GIB}\n"}
    assert memory_limit(machine(tmp_path, "9:memory:/docker/abc\n", files)) == GIB
    files = {"memory.max": f"{GIB}\n"}
    assert memory_limit(machine(tmp_path, "0::/../../abc\n", files)) == GIB


def test_version_2_beside_version_1_is_found(tmp_path: Path) -> None:
    files = {"unified/mine/memory.max": f"{GIB}\n"}
    assert memory_limit(machine(tmp_path, "0::/mine\n", files)) == GIB


def test_off_linux_memory_is_what_the_system_says_or_unlimited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 16384}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__, raising=False)
    assert memory_limit(tmp_path) == 16_384_000
    monkeypatch.delattr(os, "sysconf")
    assert memory_limit(tmp_path) == sys.maxsize


@pytest.mark.usefixtures("eight_cpus")
def test_without_a_quota_the_affinity_counts(tmp_path: Path) -> None:
    assert cpu_limit(machine(tmp_path, "0::/mine\n", {"mine/cpu.max": "max 100000\n"})) == 8
    assert cpu_limit(tmp_path / "nothing") == 8


@pytest.mark.usefixtures("eight_cpus")
@pytest.mark.parametrize(
    ("quota", "cpus"),
    [("200000 100000", 2), ("150000 100000", 2), ("1000 100000", 1), ("9900000 100000", 8)],
)
def test_a_quota_is_rounded_up_to_whole_cpus(tmp_path: Path, quota: str, cpus: int) -> None:
    assert cpu_limit(machine(tmp_path, "0::/mine\n", {"mine/cpu.max": quota})) == cpus


@pytest.mark.usefixtures("eight_cpus")
def test_the_tightest_quota_above_the_process_counts(tmp_path: Path) -> None:
    files = {"jobs/cpu.max": "300000 100000\n", "jobs/mine/cpu.max": "max 100000\n"}
    assert cpu_limit(machine(tmp_path, "0::/jobs/mine\n", files)) == 3


@pytest.mark.usefixtures("eight_cpus")
@pytest.mark.parametrize("folder", ["cpu,cpuacct", "cpu"])
def test_a_version_1_quota_counts(tmp_path: Path, folder: str) -> None:
    files = {
        f"{folder}/cpu.cfs_quota_us": "-1\n",
        f"{folder}/cpu.cfs_period_us": "100000\n",
        f"{folder}/mine/cpu.cfs_quota_us": "250000\n",
        f"{folder}/mine/cpu.cfs_period_us": "100000\n",
    }
    assert cpu_limit(machine(tmp_path, "4:cpu,cpuacct:/mine\n", files)) == 3


def test_off_linux_every_cpu_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cpu_limit(tmp_path) == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cpu_limit(tmp_path) == 1


def test_this_machine_has_some_memory_and_a_cpu() -> None:
    assert memory_limit() > 1 << 20
    assert cpu_limit() >= 1
