#include "learn/text_keeper.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "learn/folder_turn.h"
#include "learn/repeated_problem.h"
#include "train/data/test_folder.h"

namespace talon::test::text_keeper_test {
namespace {

Manifest manifest() { return data_target({{1}, {2}, {4}, {FeatureTap::kFinalNorm}}); }

/// A text of 20 tokens that begins with `number`.
Record text(int number) {
  Record record;
  for (int i = 0; i < 20; ++i) record.tokens.push_back((number + 37 * i) % 500);
  record.response_begin = 5;
  record.features.resize(19 * manifest().shard_kind().rows().row_bytes());
  return record;
}

std::vector<TokenId> first_tokens(const std::filesystem::path& folder) {
  std::vector<TokenId> first;
  for (const auto& [tokens, kept] : contents(folder)) first.push_back(tokens.front());
  std::ranges::sort(first);
  return first;
}

std::size_t bytes_in(const std::filesystem::path& folder) {
  std::size_t bytes = 0;
  for (const auto& shard : list_shards(folder)) bytes += std::filesystem::file_size(shard);
  return bytes;
}

const LearnNote kNoNote = [](const std::string&) {};

TEST(TextRing, KeepsTheNewestTextsWithinItsRoomAlsoWhenItIsOpenedAgain) {
  const DataFolder folder;
  constexpr std::size_t kRoom = 400'000;
  for (int begin = 0; begin < 120; begin += 40) {
    TextRing ring(folder.path(), manifest(), kRoom, kNoNote);
    for (int i = begin; i < begin + 40; ++i) {
      ring.append(text(i));
      ASSERT_LE(bytes_in(folder.path()), kRoom);
    }
  }
  const std::vector<TokenId> kept = first_tokens(folder.path());
  EXPECT_GT(bytes_in(folder.path()), kRoom * 3 / 4);
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(kept.back(), 119);
  EXPECT_EQ(kept.front(), 120 - static_cast<int>(kept.size())) << "no gap";
  EXPECT_GT(kept.front(), 0);
}

TEST(TextRing, GoesOnWhereItsFilesWereDeleted) {
  const DataFolder folder;
  TextRing ring(folder.path(), manifest(), 1 << 20, kNoNote);
  ring.append(text(1));
  std::filesystem::remove(list_shards(folder.path()).front());
  ring.append(text(2));
  ring.append(text(3));
  EXPECT_EQ(first_tokens(folder.path()), (std::vector<TokenId>{2, 3}));
  EXPECT_EQ(ring.texts(), 2);
}

TEST(TextRing, RefusesTextsOfAnotherModel) {
  const DataFolder folder;
  TextRing(folder.path(), manifest(), 1 << 20, kNoNote).append(text(1));
  Manifest other = manifest();
  other.info.model_sha256 = "another";
  EXPECT_THROW(TextRing(folder.path(), other, 1 << 20, kNoNote), Error);
}

TEST(TextRing, AFullDiskCostsTheTextAndNothingBefore) {
  const DataFolder folder;
  TextRing ring(folder.path(), manifest(), 1 << 24, kNoNote);
  ring.append(text(1));
  const std::size_t bytes = bytes_in(folder.path());
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{bytes + 100, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(ring.append(text(2)), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(first_tokens(folder.path()), std::vector<TokenId>{1});
  ring.append(text(3));
  EXPECT_EQ(first_tokens(folder.path()), (std::vector<TokenId>{1, 3}));
}

TEST(TextRing, AFullDiskWhereAFileBeginsDamagesNone) {
  const DataFolder folder;
  TextRing ring(folder.path(), manifest(), 80 * 1024, kNoNote);  // a file holds one text
  ring.append(text(1));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{32, before.rlim_max};  // less than the header of a file
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(ring.append(text(2)), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  ring.append(text(3));
  EXPECT_TRUE(damaged_shards(folder.path()).empty());
  EXPECT_EQ(first_tokens(folder.path()), (std::vector<TokenId>{1, 3}));
}

void damage(const std::filesystem::path& shard, std::streamoff offset) {
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offset);
  file << "no such bytes";
}

TEST(TextRing, DamagedFilesArePutAsideWhenItIsOpened) {
  const DataFolder folder;
  { TextRing(folder.path(), manifest(), 1 << 20, kNoNote).append(text(1)); }
  const auto shard = folder.only_shard();
  damage(shard, 64);  // the header of the text
  std::string notes;
  const LearnNote note = [&](const std::string& said) { notes += said; };
  TextRing ring(folder.path(), manifest(), 1 << 20, note);
  EXPECT_NE(notes.find(shard.filename().string()), std::string::npos) << notes;
  EXPECT_TRUE(std::filesystem::exists(shard.string() + ".damaged"));
  EXPECT_EQ(ring.texts(), 0);
  ring.append(text(2));
  EXPECT_EQ(first_tokens(folder.path()), std::vector<TokenId>{2});
}

TEST(TextRing, DamagedTextsArePutAsideWhileItIsWritten) {
  const DataFolder folder;
  TextRing ring(folder.path(), manifest(), 1 << 20, kNoNote);
  ring.append(text(1));
  ring.drop_damaged();
  EXPECT_EQ(ring.texts(), 1) << "whole";
  damage(folder.only_shard(), 64 + 64 + 200);
  EXPECT_EQ(damaged_shards(folder.path()).size(), 1U);
  ring.drop_damaged();
  EXPECT_EQ(ring.texts(), 0);
  ring.append(text(2));
  ring.append(text(3));
  EXPECT_EQ(ring.texts(), 2);
  EXPECT_EQ(first_tokens(folder.path()), (std::vector<TokenId>{2, 3}));
  EXPECT_TRUE(damaged_shards(folder.path()).empty());
}

TEST(TextRing, CountsWhatIsThere) {
  const DataFolder folder;
  constexpr std::size_t kRoom = 400'000;
  long texts = 0;
  {
    TextRing ring(folder.path(), manifest(), kRoom, kNoNote);
    for (int i = 0; i < 120; ++i) ring.append(text(i));
    texts = ring.texts();
  }
  EXPECT_EQ(static_cast<std::size_t>(texts), first_tokens(folder.path()).size());
  EXPECT_EQ(TextRing(folder.path(), manifest(), kRoom, kNoNote).texts(), texts);
}

TEST(RepeatedProblem, IsSaidOnceUntilItHasStayedAway) {
  using namespace std::chrono_literals;
  RepeatedProblem problem;
  const RepeatedProblem::Clock::time_point begin{};
  EXPECT_TRUE(problem.is_over(begin));
  EXPECT_TRUE(problem.came(begin));
  for (auto now = 1min; now < 60min; now += 1min) EXPECT_FALSE(problem.came(begin + now));
  EXPECT_FALSE(problem.is_over(begin + 60min));
  EXPECT_TRUE(problem.is_over(begin + 69min));
  EXPECT_TRUE(problem.came(begin + 70min));
}

TEST(FolderTurn, IsOneServersAtATime) {
  const DataFolder folder;
  const auto place = folder.path() / "learn";
  {
    const FolderTurn turn(place);
    EXPECT_THROW(FolderTurn{place}, Error);
  }
  EXPECT_NO_THROW(FolderTurn{place});
}

TEST(FolderTurn, NamesAFolderThatCannotBeMade) {
  try {
    const FolderTurn turn("/proc/learn");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/proc/learn"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace talon::test::text_keeper_test
