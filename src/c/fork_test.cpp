#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "c/test_model.h"

namespace talon::fork_test {
namespace {

constexpr int kMostSeconds = 180;  // a fork under ThreadSanitizer takes ten

/// Whether `work` ends in time, and as true, in a fork.
bool holds_in_a_fork(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  for (int waited = 0; waited < kMostSeconds * 100; ++waited) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return false;
}

/// A model and an engine that has a request.
struct Opened {
  explicit Opened(int threads) {
    talon_model_options options = talon_model_default();
    options.threads = threads;
    options.fixed_threads = 1;
    talon_model* loaded = nullptr;
    EXPECT_EQ(talon_model_load(test_model_path().c_str(), &options, &loaded), TALON_OK);
    model.reset(loaded);
    engine = make_engine(model, "none");
    prompt = tokens_of(model, "Once");
    const talon_request request = request_for(prompt, 4);
    EXPECT_EQ(talon_engine_submit(engine.get(), &request, nullptr), TALON_OK);
    EXPECT_EQ(talon_engine_step(engine.get(), nullptr, nullptr), TALON_OK) << talon_last_error();
  }

  ModelHandle model;
  EngineHandle engine;
  std::vector<std::int32_t> prompt;
};

TEST(CFork, AModelOfSeveralThreadsRefusesToComputeAndMayBeFreed) {
  Opened opened(2);
  EXPECT_TRUE(holds_in_a_fork([&] {
    const talon_status step = talon_engine_step(opened.engine.get(), nullptr, nullptr);
    return step == TALON_BAD_ARGUMENT &&
           std::string(talon_last_error()).find("fork") != std::string::npos;
  }));
  EXPECT_TRUE(holds_in_a_fork([&] {
    std::vector<float> row(512);
    return talon_model_logits(opened.model.get(), opened.prompt.data(), 1, 0, row.data(),
                              row.size()) == TALON_BAD_ARGUMENT;
  }));
  EXPECT_TRUE(holds_in_a_fork([&] {
    opened.engine.reset();
    opened.model.reset();
    return true;
  }));
  EXPECT_EQ(talon_engine_run(opened.engine.get(), nullptr, nullptr, nullptr), TALON_OK);
}

TEST(CFork, AModelOfOneThreadComputes) {
  Opened opened(1);
  EXPECT_TRUE(holds_in_a_fork([&] {
    return talon_engine_run(opened.engine.get(), nullptr, nullptr, nullptr) == TALON_OK;
  }));
}

}  // namespace
}  // namespace talon::fork_test
