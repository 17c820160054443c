"""What memory there is, from the files that Linux tells it in, laid out as in a container or a batch job."""

from __future__ import annotations

import psutil

from pipeline.workers.memory import memory_there_is, out_of_memory_kills

GB = 1 << 30


def lay_out(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_machine_without_cgroups_has_what_it_has(tmp_path):
    there_is = memory_there_is(tmp_path)
    assert there_is.total == psutil.virtual_memory().total
    assert there_is.limited_by == "this machine"


def test_the_tightest_cgroup_of_version_2_counts_and_its_idle_file_cache_does_not(tmp_path):
    lay_out(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job/step\n",
            "sys/fs/cgroup/job/memory.max": f"{GB}\n",
            "sys/fs/cgroup/job/memory.current": f"{GB // 2}\n",
            "sys/fs/cgroup/job/memory.stat": f"anon 1\ninactive_file {GB // 4}\n",
            "sys/fs/cgroup/job/step/memory.max": "max\n",
            "sys/fs/cgroup/job/step/memory.current": "1\n",
        },
    )
    there_is = memory_there_is(tmp_path)
    assert (there_is.total, there_is.available) == (GB, 3 * GB // 4)
    assert there_is.limited_by == f"the cgroup {tmp_path}/sys/fs/cgroup/job"


def test_version_1_is_read_where_the_path_inside_a_container_is_another(tmp_path):
    lay_out(
        tmp_path,
        {
            "proc/self/cgroup": "5:cpu:/x\n4:memory:/docker/abc\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{2 * GB}\n",
            "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 0\n",
        },
    )
    there_is = memory_there_is(tmp_path)
    assert (there_is.total, there_is.available) == (GB, 0)


def test_a_kill_for_want_of_memory_is_counted(tmp_path):
    files = {
        "proc/self/cgroup": "0::/job\n",
        "proc/vmstat": "nr_free_pages 5\noom_kill 3\n",
        "sys/fs/cgroup/job/memory.events": "oom 1\noom_kill 1\n",
    }
    lay_out(tmp_path, files)
    before = out_of_memory_kills(tmp_path)
    lay_out(tmp_path, files | {"sys/fs/cgroup/job/memory.events": "oom 2\noom_kill 2\n"})
    assert out_of_memory_kills(tmp_path) == before + 1
