#include "core/scratch_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"

namespace talon::scratch_folder_test {
namespace {

TEST(ScratchFolder, GoesWithAllThatIsInItAndIsNobodyElses) {
  std::filesystem::path first;
  {
    const ScratchFolder folder, other;
    first = folder.path();
    EXPECT_NE(first, other.path());
    std::filesystem::create_directory(first / "below");
    std::ofstream(first / "below" / "file") << "text";
    EXPECT_TRUE(std::filesystem::exists(first / "below" / "file"));
  }
  EXPECT_FALSE(std::filesystem::exists(first));
}

TEST(ScratchFolder, SaysWhereItCannotBeMade) {
  const ScratchFolder folder;
  const std::filesystem::path missing = folder.path() / "missing";
  try {
    ScratchFolder below(missing / "talon-");
    FAIL() << "made in a folder that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "make a folder in " + missing.string() + ": No such file or directory");
  }
}

}  // namespace
}  // namespace talon::scratch_folder_test
