"""Cluster configurations: what their keys mean, and what is refused in which words."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

import dask
import pytest

from pipeline import ClusterConfig
from pipeline.workers.cluster_config import KINDS, shipped_names
from pipeline.workers.described import description
from pipeline.workers.kubernetes_pods import dask_cluster
from pipeline.workers.slurm_jobs import job_options
from pipeline.workers.spans import seconds_of_walltime, slurm_walltime
from pipeline.workers.ssh_hosts import remote_python, ssh_hosts


@pytest.fixture
def read(tmp_path):
    def read(text: str) -> ClusterConfig:
        (tmp_path / "c.yaml").write_text(text)
        return ClusterConfig.from_yaml(str(tmp_path / "c.yaml"))

    return read


def test_there_is_a_configuration_of_each_kind_under_its_name():
    assert {ClusterConfig.from_yaml(name).kind for name in shipped_names()} == set(KINDS)
    assert all(ClusterConfig.from_yaml(name).kind == name for name in shipped_names())


def test_a_configuration_says_what_it_would_start():
    words = dict(description(ClusterConfig.from_yaml("slurm")))
    assert words["workers"] == "8; each 1 thread, 4 GiB"
    assert "0-01:00:00" in words["walltime"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: local-cpu\nworker: 2\n", "unknown key 'worker': did you mean 'workers'?"),
        (
            "kind: slurm\nmemory_limit: 1 GiB\nslurm: {wall_time: 1}\n",
            "unknown key 'slurm.wall_time': did you mean 'slurm.walltime'",
        ),
        ("kind: slrm\n", "kind: 'slrm' is not one of"),
        ("kind: local-cpu\nworkers: 2.5\n", "workers: 2.5 is not a whole number"),
        ("kind: local-cpu\nworkers: true\n", "workers: True is not a whole number"),
        ("kind: local-cpu\nworkers: 0\n", "at least 1"),
        ("kind: local-cpu\nthreads: 0\n", "at least 1"),
        ("kind: local-cpu\ngpus: 1\n", "gpus: is for kind 'local-gpu'"),
        ("kind: local-cpu\nscheduler: tcp://a:1\n", "scheduler: is for kind 'existing'"),
        ("kind: local-cpu\nssh: {hosts: [a]}\n", "ssh: is for kind 'ssh'"),
        ("kind: local-cpu\nadaptive: {minimum: 0, maximum: 2}\n", "minimum 0"),
        ("kind: local-cpu\nadaptive: {minimum: 3, maximum: 2}\n", "maximum 2"),
        ("kind: local-cpu\nworkers: 2\nadaptive: {minimum: 1, maximum: 2}\n", "not both"),
        ("kind: local-cpu\nwait_for_workers: soon\n", "'soon' is no time"),
        ("kind: local-cpu\nenvironment: [a]\n", "environment: ['a'] is not a section"),
        ("kind: local-cpu\ndashboard_address: nonsense\n", "'nonsense' is no address: give HOST:PORT"),
        ("kind: local-cpu\ndashboard_address: 127.0.0.1:99999\n", "'127.0.0.1:99999' is no address"),
        ("kind: slurm\nmemory_limit: 1 GiB\n", "needs a section slurm:"),
        ("kind: slurm\nslurm: {}\n", "needs a memory_limit"),
        ("kind: slurm\nmemory_limit: 1 GiB\nslurm: {walltime: '1:2:3:4'}\n", "'1:2:3:4' is no time"),
        ("kind: slurm\nmemory_limit: 1 GiB\nslurm: {walltime: 90}\n", "90 has no unit"),
        ("kind: slurm\nmemory_limit: 1 GiB\nslurm: {walltime: 4 minutes}\n", "leaves nothing"),
        ("kind: slurm\nmemory_limit: 1 GiB\ngpus: 2\nslurm: {workers_per_job: 2}\n", "one worker and one GPU"),
        ("kind: ssh\nssh: {hosts: []}\n", "names no machine"),
        ("kind: ssh\nssh: {hosts: node1}\n", "ssh.hosts: 'node1' is not a list"),
        ("kind: ssh\nssh: {hosts: [a, 2]}\n", "ssh.hosts[1]: 2 is not text"),
        ("kind: ssh\ntls: true\nssh: {hosts: [a]}\n", "tls_ca_file"),
        ("kind: kubernetes\nmemory_limit: 1 GiB\nkubernetes: {image: i, name: My_Run}\n", "'My_Run' is no name"),
        ("kind: kubernetes\nmemory_limit: 1 GiB\ntls: true\nkubernetes: {image: i}\n", "certificates"),
        ("kind: existing\n", "address of the scheduler"),
        ("kind: existing\nscheduler: tcp://a:1\nthreads: 2\n", "threads is for workers that are started"),
        ("kind: existing\nscheduler: tcp://a:1\nenvironment: {A: b}\n", "environment is for workers"),
    ],
)
def test_what_means_nothing_is_refused_in_a_sentence_with_the_file(read, text, said):
    with pytest.raises(ValueError, match=r"c\.yaml") as refused:
        read(text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_key_is_told_in_its_docstring():

    def sections(kind):
        yield kind
        for hint in get_type_hints(kind).values():
            for inner in (hint, *get_args(hint)):
                if is_dataclass(inner):
                    yield from sections(inner)

    for kind in sections(ClusterConfig):
        for field in fields(kind):
            assert f"{field.name}:" in kind.__doc__, (kind, field.name)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90:00", 5400),
        ("02:00:00", 7200),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-00:00:01", 86_401),
        ("2 hours", 7200),
    ],
)
def test_a_walltime_is_read_as_slurm_reads_it(written, seconds):
    assert seconds_of_walltime(written, "walltime") == seconds
    assert seconds_of_walltime(slurm_walltime(seconds), "walltime") == seconds


def test_a_walltime_without_quotes_is_what_it_looks_like(read):
    config = read("kind: slurm\nmemory_limit: 1 GiB\nslurm: {walltime: 10:00:00}\n")
    assert config.slurm.walltime_seconds == 36_000


def test_the_workers_environment_is_ours_and_what_the_file_adds(read):
    environment = read("kind: local-cpu\nenvironment: {RAYON_NUM_THREADS: 3, MINE: a b}\n").worker_environment
    assert (environment["RAYON_NUM_THREADS"], environment["MINE"], environment["OMP_NUM_THREADS"]) == ("3", "a b", "1")


@pytest.mark.parametrize(
    "text",
    [
        "kind: local-gpu\n",
        "kind: slurm\ngpus: 2\nmemory_limit: 1 GiB\nslurm: {}\n",
        "kind: ssh\ngpus: 2\nssh: {hosts: [a, b]}\n",
        "kind: kubernetes\ngpus: 2\nmemory_limit: 1 GiB\nkubernetes: {image: i}\n",
    ],
    ids=["local", "slurm", "ssh", "kubernetes"],
)
def test_workers_with_gpus_do_not_have_dask_look_at_these(read, text):
    look = "DASK_DISTRIBUTED__DIAGNOSTICS__NVML"
    config = read(text)
    assert config.worker_environment[look] == "False"
    assert dask.config.collect_env({look: "False"}) == {"distributed": {"diagnostics": {"nvml": False}}}
    if config.slurm is not None:
        assert f"export {look}=False" in job_options(config)["job_script_prologue"]
    if config.ssh is not None:
        assert f" {look}=False " in remote_python(config)
    if config.kubernetes is not None:
        (container,) = dask_cluster(config)["spec"]["worker"]["spec"]["containers"]
        assert {"name": look, "value": "False"} in container["env"]
    assert look not in read("kind: local-cpu\n").worker_environment


def test_a_slurm_job_asks_for_what_the_file_says(read):
    config = read(
        "kind: slurm\nworkers: 4\nthreads: 2\nmemory_limit: 1 GiB\nenvironment: {MINE: a b}\nslurm:\n"
        "  {queue: day, account: phys, walltime: '01:00:00', leave_before: 6 minutes, workers_per_job: 2,\n"
        "   directives: [--constraint=zen4], prologue: [module load python]}\n"
    )
    options = job_options(config)
    assert (options["queue"], options["account"], options["walltime"]) == ("day", "phys", "0-01:00:00")
    assert (options["cores"], options["processes"], options["job_mem"]) == (4, 2, "2560M")
    assert options["job_extra_directives"] == ["--constraint=zen4"]
    assert "export MINE='a b'" in options["job_script_prologue"]
    assert options["job_script_prologue"][-1] == "module load python"
    # None stays for longer than 54 of the 60 minutes.
    assert options["worker_extra_args"] == ["--lifetime", "2916s", "--lifetime-stagger", "324s"]


def test_a_slurm_job_with_a_gpu_asks_for_one(read):
    options = job_options(read("kind: slurm\nmemory_limit: 1 GiB\ngpus: 4\nslurm: {gres: 'gpu:h200:1'}\n"))
    assert options["job_extra_directives"] == ["--gres=gpu:h200:1"]


def test_workers_are_dealt_out_to_the_hosts_in_turn(read):
    config = read("kind: ssh\nworkers: 3\nssh: {hosts: [a, b]}\n")
    assert ssh_hosts(config) == ["a", "a", "b", "a"]
    config = read("kind: ssh\nssh: {hosts: [a, b], scheduler: c}\n")
    assert ssh_hosts(config) == ["c", "a", "b"]


def test_a_worker_with_a_gpu_on_another_machine_is_given_one_of_its_own(read):
    config = read("kind: ssh\ngpus: 2\nssh: {hosts: [a]}\n")
    assert [f"CUDA_VISIBLE_DEVICES={k}" in remote_python(config, k) for k in (0, 1)] == [True, True]
    assert "CUDA_VISIBLE_DEVICES" not in remote_python(read("kind: ssh\nssh: {hosts: [a]}\n"))
