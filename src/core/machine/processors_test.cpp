#include "core/machine/processors.h"

#include <gtest/gtest.h>

#include <string>

#include "core/machine/fake_root.h"

namespace talon::processors_test {
namespace {

struct FakeRoot : test::FakeRoot {
  std::optional<double> quota() const { return cpu_quota(path()); }
};

constexpr const char* kMountV2 =
    "22 1 0:20 / /proc rw - proc proc rw\n"
    "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(CpuQuota, IsNoneWhereThereIsNoCgroupOrNoLimit) {
  FakeRoot root;
  EXPECT_FALSE(root.quota());
  root.write("proc/self/mountinfo", kMountV2);
  EXPECT_FALSE(root.quota());
  root.write("proc/self/cgroup", "0::/user.slice\n");
  root.write("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
  EXPECT_FALSE(root.quota());
}

TEST(CpuQuota, OfVersion2IsTheLeastOfTheNestedGroups) {
  FakeRoot root;
  root.write("proc/self/mountinfo", kMountV2);
  root.write("proc/self/cgroup", "0::/outer/inner/leaf\n");
  root.write("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
  root.write("sys/fs/cgroup/outer/inner/cpu.max", "400000 100000\n");
  root.write("sys/fs/cgroup/outer/inner/leaf/cpu.max", "max 100000\n");
  EXPECT_EQ(root.quota(), 1.5);
  root.write("sys/fs/cgroup/outer/inner/leaf/cpu.max", "50000 200000\n");
  EXPECT_EQ(root.quota(), 0.25);
}

TEST(CpuQuota, OfAContainerLiesAtTheMountPoint) {
  FakeRoot root;  // a namespace of cgroups: the own group is the root of what is seen
  root.write("proc/self/mountinfo", kMountV2);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(root.quota(), 2);
  root.write("proc/self/cgroup", "0::/../elsewhere\n");
  EXPECT_EQ(root.quota(), 2);
}

TEST(CpuQuota, OfVersion1IsThatOfTheCpuController) {
  FakeRoot root;
  root.write("proc/self/mountinfo",
             "40 30 0:35 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
             "41 30 0:36 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  root.write("proc/self/cgroup", "5:cpuset:/one\n4:cpu,cpuacct:/docker/two\n0::/three\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/docker/two/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/docker/two/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(root.quota());
  root.write("sys/fs/cgroup/cpu,cpuacct/docker/two/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(root.quota(), 2.5);
}

TEST(CpuQuota, OfVersion1IsFoundWhereOnlyTheContainersOwnGroupIsMounted) {
  FakeRoot root;
  root.write("proc/self/mountinfo",
             "41 30 0:36 /docker/two /sys/fs/cgroup/cpu ro master:12 - cgroup cgroup rw,cpu\n");
  root.write("proc/self/cgroup", "4:cpu:/docker/two/nested\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(root.quota(), 3);
  root.write("sys/fs/cgroup/cpu/nested/cpu.cfs_quota_us", "50000\n");
  root.write("sys/fs/cgroup/cpu/nested/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(root.quota(), 1);
}

TEST(CpuQuota, TakesDamagedFilesForNoQuota) {
  FakeRoot root;
  root.write("proc/self/mountinfo", std::string("no mount\n- - -\n") + kMountV2);
  root.write("proc/self/cgroup", "nonsense\n0::/group\n");
  for (const char* text : {"", "a b", "0 100000", "100000 0", "-5 100000", "100000"}) {
    root.write("sys/fs/cgroup/group/cpu.max", text);
    EXPECT_FALSE(root.quota()) << text;
  }
}

TEST(WorkerCount, IsNeverMoreThanTheProcessors) {
  const auto processors = static_cast<int>(allowed_processors().size());
  EXPECT_EQ(worker_count(1), 1);
  EXPECT_EQ(worker_count(1024), processors);
  EXPECT_EQ(worker_count(0), available_processors());
  EXPECT_LE(worker_count(0), processors);
}

}  // namespace
}  // namespace talon::processors_test
