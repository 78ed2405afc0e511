#include "bench/spec/spec.h"

#include <gtest/gtest.h>

#include <fstream>

#include "bench/machine/bandwidth.h"
#include "bench/machine/multiply.h"
#include "core/error.h"

namespace talon::spec_test {
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
  EXPECT_EQ(select_questions(all, {.category = "math"}).size(), 1u);
  EXPECT_EQ(select_questions(all, {.limit = 1}).size(), 1u);
}

TEST_F(Questions, CanBeTheFirstOfEachSubtask) {
  std::string lines;
  for (const char* category : {"writing", "qa", "math", "qa", "qa", "coding"})
    lines += fmt::format("{{\"category\": \"{}\", \"turns\": [\"a\"]}}\n", category);
  const auto chosen = select_questions(read_questions(write(lines).string()), {.per_category = 2});
  std::vector<int> ids;
  for (const Question& question : chosen) ids.push_back(question.id);
  EXPECT_EQ(ids, (std::vector<int>{1, 2, 3, 4})) << "writing and math are both multi_turn";
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
  EXPECT_THROW(select_questions(read_questions(file.string()), {.category = "poetry"}), Error);
}

TEST_F(Questions, ThatCannotBeLookedAtAreNamedWithTheReason) {
  std::filesystem::create_symlink(path_.filename(), path_);
  for (const std::string& source : {path_.string(), "qa=" + path_.string()}) {
    try {
      read_questions(source);
      ADD_FAILURE() << source;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(),
                "read questions " + path_.string() + ": Too many levels of symbolic links");
    }
  }
}

TEST(MachineRates, ArePositiveAndPlausible) {
  EXPECT_GT(read_bandwidth_gb_s(1, std::size_t{1} << 24, 1), 0.01);
  EXPECT_LT(read_bandwidth_gb_s(1, std::size_t{1} << 24, 1), 1e5);
  EXPECT_GT(measure_multiply_rate(1).gmac_s, 0.01);
}

}  // namespace
}  // namespace talon::spec_test
