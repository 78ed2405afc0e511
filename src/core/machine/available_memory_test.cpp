#include "core/machine/available_memory.h"

#include <gtest/gtest.h>

#include "core/machine/fake_root.h"

namespace talon::available_memory_test {
namespace {

namespace fs = std::filesystem;

struct FakeMachine : test::FakeRoot {
  std::optional<std::size_t> left() const { return available_memory(path()); }
};

constexpr const char* kMeminfo = "MemTotal:  8000 kB\nMemFree:  100 kB\nMemAvailable:  6000 kB\n";
constexpr std::size_t kAvailable = 6000 * 1024;

TEST(AvailableMemory, IsWhatTheSystemSaysWithoutAGroup) {
  FakeMachine machine;
  EXPECT_FALSE(machine.left());
  machine.write("proc/meminfo", kMeminfo);
  EXPECT_EQ(machine.left(), kAvailable);
  machine.write("proc/meminfo", "MemAvailable: lots\n");
  EXPECT_FALSE(machine.left());
}

TEST(AvailableMemory, OfVersion2IsWhatTheTightestOfTheNestedGroupsLeaves) {
  FakeMachine machine;
  machine.write("proc/meminfo", kMeminfo);
  machine.write("proc/self/mountinfo", "29 22 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
  machine.write("proc/self/cgroup", "0::/outer/inner\n");
  machine.write("cg/outer/inner/memory.max", "max\n");
  machine.write("cg/outer/inner/memory.current", "1000\n");
  EXPECT_EQ(machine.left(), kAvailable);
  machine.write("cg/outer/memory.max", "5000\n");
  machine.write("cg/outer/memory.current", "3000\n");
  EXPECT_EQ(machine.left(), 2000u);
  machine.write("cg/outer/memory.stat", "anon 100\nactive_file 700\ninactive_file 500\n");
  EXPECT_EQ(machine.left(), 2500u);  // what caches files can be given back
  machine.write("cg/outer/inner/memory.high", "1200\n");
  EXPECT_EQ(machine.left(), 200u);
  machine.write("cg/outer/inner/memory.current", "1300\n");
  EXPECT_EQ(machine.left(), 0u);
}

TEST(AvailableMemory, OfVersion1IsThatOfTheMemoryController) {
  FakeMachine machine;
  machine.write("proc/meminfo", kMeminfo);
  machine.write("proc/self/mountinfo",
                "40 30 0:35 / /cg/cpu rw - cgroup cgroup rw,cpu\n"
                "41 30 0:36 / /cg/memory rw - cgroup cgroup rw,memory\n");
  machine.write("proc/self/cgroup", "5:cpu:/one\n4:memory:/docker/two\n");
  machine.write("cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.write("cg/memory/memory.usage_in_bytes", "123456\n");
  EXPECT_EQ(machine.left(), kAvailable);
  machine.write("cg/memory/docker/two/memory.limit_in_bytes", "4000\n");
  machine.write("cg/memory/docker/two/memory.usage_in_bytes", "3500\n");
  machine.write("cg/memory/docker/two/memory.stat", "inactive_file 1\ntotal_inactive_file 1500\n");
  EXPECT_EQ(machine.left(), 2000u);
}

TEST(AvailableMemory, OfThisMachineIsSome) {
  if (!std::filesystem::exists("/proc/meminfo")) GTEST_SKIP() << "no /proc";
  EXPECT_GT(available_memory().value(), std::size_t{1} << 20);
}

}  // namespace
}  // namespace talon::available_memory_test
