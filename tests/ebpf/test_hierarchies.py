"""Where the control groups of a process are found."""

from pathlib import Path

from ebpf.domains.hierarchies import find_hierarchies

HYBRID_MOUNTS = """\
25 20 0:22 / /proc rw,relatime - proc proc rw
30 25 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
32 25 0:28 / /sys/fs/cgroup/unified rw,relatime shared:1 master:2 - cgroup2 none rw
"""


def test_each_controller_is_found_where_the_process_stands_in_it() -> None:
    found = find_hierarchies(
        mountinfo=HYBRID_MOUNTS,
        memberships="4:memory:/service/agent\n2:cpu,cpuacct:/\n0::/user.slice/a:b\n",
    )

    assert found["memory"].own == Path("/sys/fs/cgroup/memory/service/agent")
    assert found["cpuacct"].own == Path("/sys/fs/cgroup/cpu,cpuacct")
    assert found["unified"].own == Path("/sys/fs/cgroup/unified/user.slice/a:b")
    assert found["unified"].mount == Path("/sys/fs/cgroup/unified")


def test_a_hierarchy_that_is_not_mounted_is_not_found() -> None:
    found = find_hierarchies(mountinfo=HYBRID_MOUNTS, memberships="9:pids:/\n4:memory:/\n")

    assert set(found) == {"memory"}


def test_a_container_that_sees_a_subtree_finds_itself_within_it() -> None:
    mount = "30 25 0:26 /box/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"

    inside = find_hierarchies(mountinfo=mount, memberships="4:memory:/box/1/job\n")
    outside = find_hierarchies(mountinfo=mount, memberships="4:memory:/\n")

    assert inside["memory"].own == Path("/sys/fs/cgroup/memory/job")
    assert outside["memory"].own == Path("/sys/fs/cgroup/memory")


def test_escaped_mount_points_are_read_as_they_are() -> None:
    mount = "30 25 0:26 / /mnt/a\\040b rw - cgroup cgroup rw,memory\n"

    found = find_hierarchies(mountinfo=mount, memberships="4:memory:/\n")

    assert found["memory"].own == Path("/mnt/a b")
