#include "backend/cpu/huge_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "core/error.h"

namespace talon::cpu::huge_memory_test {
namespace {

TEST(HugeBlock, IsZeroedAndAligned) {
  const HugeBlock block(std::size_t{5} << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % (std::size_t{2} << 20), 0u);
  EXPECT_EQ(block.data()[0], std::byte{0});
  EXPECT_EQ(block.data()[block.size() - 1], std::byte{0});
  std::memset(block.data(), 1, block.size());
}

TEST(HugeBlock, IsNotPromisedWhereTheMachineHasFarLess) {
  int overcommits = -1;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommits;
  if (overcommits != 0 && overcommits != 2) GTEST_SKIP() << "this system promises everything";
  EXPECT_THROW(HugeBlock(std::size_t{64} << 40), Error);
}

}  // namespace
}  // namespace talon::cpu::huge_memory_test
