#include "bench/spec.h"

#include <gtest/gtest.h>

#include <fstream>

#include "bench/bandwidth.h"
#include "bench/multiply.h"
#include "core/error.h"

namespace talon {
namespace {

class Questions : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("questions_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Questions, AreReadWithTheirTurnsAndCategory) {
  const auto file = write(
      "{\"question_id\": 5, \"category\": \"qa\", \"turns\": [\"a\", \"b\"]}\n\n"
      "{\"question_id\": \"x\", \"category\": \"math\", \"turns\": [\"c\"]}\n");
  const std::vector<Question> all = read_questions(file.string());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].turns, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(all[1].id, "x");
  EXPECT_EQ(select_questions(all, "math", 0).size(), 1u);
  EXPECT_EQ(select_questions(all, "", 1).size(), 1u);
}

TEST_F(Questions, ThatAreDamagedAreNamedByLine) {
  for (const char* line :
       {"[]", "{\"turns\": []}", "{\"turns\": [1]}", "{\"turns\": 3}", "{", "{}"}) {
    const auto file = write(std::string("{\"turns\": [\"a\"]}\n") + line + "\n");
    try {
      read_questions(file.string());
      ADD_FAILURE() << line << " was taken for a question";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
    }
  }
}

TEST_F(Questions, ThatDoNotExistAreAnError) {
  EXPECT_THROW(read_questions(path_.string()), Error);
  const auto file = write("{\"category\": \"qa\", \"turns\": [\"a\"]}\n");
  EXPECT_THROW(select_questions(read_questions(file.string()), "poetry", 0), Error);
}

TEST(MachineRates, ArePositiveAndPlausible) {
  EXPECT_GT(read_bandwidth_gb_s(1, std::size_t{1} << 24, 1), 0.01);
  EXPECT_LT(read_bandwidth_gb_s(1, std::size_t{1} << 24, 1), 1e5);
  EXPECT_GT(measure_multiply_rate(1).gmac_s, 0.01);
}

}  // namespace
}  // namespace talon
