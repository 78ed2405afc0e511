#include "seed_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace talon::fuzz::seed_run_test {
namespace {

class SeedRuns : public testing::Test {
 protected:
  ~SeedRuns() override { std::filesystem::remove(state_); }

  /// How many of ten situations are tried, of which the third is a finding.
  int tried() {
    int count = 0;
    std::string words[] = {"fuzz", "--situations", "10", "--jobs", "0", "--state", state_};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    code_ = run_seeds(static_cast<int>(arguments.size()), arguments.data(), [&] {
      return [&](std::uint64_t seed) {
        ++count;
        return seed == 3 ? std::optional<std::string>("wrong") : std::nullopt;
      };
    });
    return count;
  }
  std::string state() const {
    std::stringstream text;
    text << std::ifstream(state_).rdbuf();
    return text.str();
  }

  const std::string state_ = testing::TempDir() + "seed_run.state";
  int code_ = -1;
};

TEST_F(SeedRuns, GoOnWhereTheyWereStopped) {
  EXPECT_EQ(tried(), 10);
  EXPECT_EQ(state().substr(0, 5), "10 1 ");
  EXPECT_EQ(tried(), 0);
  EXPECT_EQ(code_, 1) << "the finding stands";
}

TEST_F(SeedRuns, OfAnotherProgramBeginAnew) {
  tried();
  const std::string own = state();
  for (const std::string& other : {std::string("10 7\n"), "10 7 " + std::string(64, '0') + "\n"}) {
    std::ofstream(state_) << other;
    EXPECT_EQ(tried(), 10) << other;
    EXPECT_EQ(state(), own) << "without the findings of the other";
  }
}

}  // namespace
}  // namespace talon::fuzz::seed_run_test
