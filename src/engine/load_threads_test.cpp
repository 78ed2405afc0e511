#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "backend/cpu/cpu.h"
#include "backend/wrap/forwarding.h"
#include "core/thread_pool.h"
#include "draft/registry.h"
#include "engine/test_model.h"

namespace talon::load_threads_test {
namespace {

const std::string kGolden = TALON_TEST_DATA "/golden/stories260k/";

int threads_of_this_process() {
  return static_cast<int>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

/// Counts the threads there are whenever a weight is loaded.
class CountingBackend : public ForwardingBackend {
 public:
  CountingBackend(std::unique_ptr<Backend> inner, int& most)
      : ForwardingBackend(std::move(inner)), most_(most) {}
  std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) override {
    most_ = std::max(most_, threads_of_this_process());
    return ForwardingBackend::load_weight(matrix, layout);
  }

 private:
  int& most_;
};

/// Loads a model and its head on a backend with that many threads, and expects so many in all
/// beyond those of before.
void expect_when_loading(int threads, int expected) {
  const int before = threads_of_this_process();
  int most = 0;
  test::TestModel model(kGolden + "target", std::make_unique<CountingBackend>(
                                                make_cpu_backend({.threads = threads}), most));
  EXPECT_EQ(std::exchange(most, 0) - before, expected) << "the model";
  make_drafter("eagle3", {.target = &model.model, .head = kGolden + "eagle3_head"});
  EXPECT_EQ(most - before, expected) << "the head";
}

TEST(Loading, StartsNoMoreThreadsThanTheBackendHas) {
  const ThreadPool running(2);  // with the first thread ThreadSanitizer starts one of its own
  expect_when_loading(1, 0);
  expect_when_loading(3, 4);  // the backend's and the loader's, both without the caller
}

}  // namespace
}  // namespace talon::load_threads_test
