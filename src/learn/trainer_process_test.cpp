#include "learn/trainer_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "core/error.h"
#include "train/data/test_folder.h"

namespace talon::test::trainer_process_test {
namespace {

using namespace std::chrono_literals;

/// Writes a line each few milliseconds, and "asked" when it is asked to end.
std::vector<std::string> ticker(const std::filesystem::path& folder) {
  const std::string file = (folder / "ticks").string();
  return {"/bin/sh", "-c",
          "trap 'echo asked > " + (folder / "asked").string() +
              "; exit 130' TERM; while true; do echo . >> " + file + "; sleep 0.01; done"};
}

std::uintmax_t ticks(const std::filesystem::path& folder) {
  std::error_code none;
  const auto size = std::filesystem::file_size(folder / "ticks", none);
  return none ? 0 : size;
}

bool grows(const std::filesystem::path& folder, std::chrono::milliseconds within) {
  const auto before = ticks(folder);
  const auto end = std::chrono::steady_clock::now() + within;
  while (std::chrono::steady_clock::now() < end) {
    if (ticks(folder) > before) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

TEST(TrainerProcess, WorksOnlyWhileItMay) {
  const DataFolder folder;
  TrainerProcess process(ticker(folder.path()), folder.path() / "log");
  process.let_work(true);
  EXPECT_TRUE(grows(folder.path(), 120s));
  process.let_work(false);
  std::this_thread::sleep_for(200ms);  // what it was about to write
  EXPECT_FALSE(grows(folder.path(), 500ms));
  EXPECT_FALSE(process.ended());
  process.let_work(true);
  EXPECT_TRUE(grows(folder.path(), 120s));
}

TEST(TrainerProcess, IsAskedToEndAlsoWhereTheStarterHoldsSignalsBack) {
  const DataFolder folder;
  sigset_t held, before;
  sigemptyset(&held);
  sigaddset(&held, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &held, &before);
  auto process = std::make_unique<TrainerProcess>(std::vector<std::string>{"sleep", "100"},
                                                  folder.path() / "log");
  process->let_work(true);
  std::this_thread::sleep_for(200ms);
  const auto begin = std::chrono::steady_clock::now();
  process.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s) << "it was killed";
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(TrainerProcess, IsAskedToEndAlsoWhereItMayNotWork) {
  const DataFolder folder;
  {
    TrainerProcess process(ticker(folder.path()), folder.path() / "log");
    process.let_work(true);
    EXPECT_TRUE(grows(folder.path(), 120s));
    process.let_work(false);
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "asked"));
}

TEST(TrainerProcess, TellsHowItEnded) {
  const DataFolder folder;
  TrainerProcess process({"/bin/sh", "-c", "echo why >&2; exit 3"}, folder.path() / "log");
  process.let_work(true);
  for (int i = 0; i < 2000 && !process.ended(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(process.ended(), 3);
  std::string said;
  std::getline(std::ifstream(folder.path() / "log") >> std::ws, said);
  EXPECT_EQ(said, "why");
}

TEST(TrainerProcess, NamesAProgramThatIsNotThere) {
  const DataFolder folder;
  try {
    const TrainerProcess process({"/no/such/trainer"}, folder.path() / "log");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/trainer"), std::string::npos);
  }
}

}  // namespace
}  // namespace talon::test::trainer_process_test
