#include "train/head/math/exchange.h"

#include <vector>

#include "core/error.h"

#ifdef TALON_GLOO
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

namespace talon {

#ifdef TALON_GLOO
namespace {

/// Held by every process of a run. Whoever finds itself alone takes away what a run that was killed
/// has left in the file where processes meet.
class MeetingLock {
 public:
  explicit MeetingLock(const std::string& meet)
      : descriptor_(::open((meet + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove(meet);
    if (::flock(descriptor_, LOCK_SH) != 0)
      fail("lock {}.lock: {}", meet, std::generic_category().message(errno));
  }
  ~MeetingLock() { ::close(descriptor_); }
  MeetingLock(const MeetingLock&) = delete;
  MeetingLock& operator=(const MeetingLock&) = delete;

 private:
  int descriptor_;
};

class GlooExchange : public Exchange {
 public:
  GlooExchange(int rank, int ranks, const std::string& meet)
      : lock_(meet),
        group_(c10::make_intrusive<c10d::FileStore>(meet, ranks), rank, ranks, group_options()) {}

  void sum(torch::Tensor& tensor) override {
    std::vector<torch::Tensor> tensors = {tensor};
    group_.allreduce(tensors)->wait();
  }

 private:
  static c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> group_options() {
    auto options = c10d::ProcessGroupGloo::Options::create();
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    return options;
  }

  MeetingLock lock_;
  c10d::ProcessGroupGloo group_;
};

}  // namespace

std::unique_ptr<Exchange> make_exchange(int rank, int ranks, const std::string& meet) {
  if (meet.empty()) throw UsageError("--ranks: needs --meet FILE, the same for all processes");
  try {
    return std::make_unique<GlooExchange>(rank, ranks, meet);
  } catch (const std::exception& problem) {
    fail("train head: process {} of {} cannot meet the others at {}: {}", rank, ranks, meet,
         problem.what());
  }
}
#else
std::unique_ptr<Exchange> make_exchange(int, int, const std::string&) {
  fail("train head: several processes need a libtorch with gloo, and gloo's headers");
}
#endif

}  // namespace talon
