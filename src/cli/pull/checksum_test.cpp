#include "cli/pull/checksum.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "io/sha256.h"
#include "io/test_files.h"

namespace talon::checksum_test {
namespace {

TEST(Checksum, IsThatOfTheFileAndEndsOnceItIsToStop) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.add("model.gguf", "weights");
  StopFlag stop;
  EXPECT_EQ(checksum_of(file, &stop), sha256_of_file(file));
  EXPECT_EQ(checksum_of(file, nullptr), sha256_of_file(file));
  stop.request();
  EXPECT_THROW(checksum_of(file, &stop), Error);
}

}  // namespace
}  // namespace talon::checksum_test
