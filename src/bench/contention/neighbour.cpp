#include "bench/contention/neighbour.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>

#include "bench/contention/child_process.h"
#include "core/error.h"

namespace talon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTouchedBytes = std::size_t{64} << 20;
constexpr int kPeriodUs = 100'000;

void compute() {
  for (volatile bool forever = true; forever;) {
  }
}

void touch_memory() {
  void* memory =
      mmap(nullptr, kTouchedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) _exit(1);
  for (int turn = 0;; ++turn) std::memset(memory, turn, kTouchedBytes);
}

class Processes : public Neighbour {
 public:
  explicit Processes(std::string description) : description_(std::move(description)) {}
  std::string description() const override { return description_; }
  ChildProcess& start(const std::function<void()>& body) { return processes_.emplace_back(body); }

 private:
  std::string description_;
  std::deque<ChildProcess> processes_;
};

std::vector<char*> arguments_of(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

/// A group of cgroup version 1 or 2 that this process has moved to.
class CpuQuota : public Neighbour {
 public:
  explicit CpuQuota(double processors) : processors_(processors) {
    std::string problem = "no cgroup hierarchy for processor time";
    for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"}) {
      parent_ = mount;
      if (fs::exists(parent_ / "cgroup.procs") && enter(problem)) return;
    }
    fail("set a quota of {} processors: {}", processors, problem);
  }
  ~CpuQuota() override { leave(); }
  CpuQuota(const CpuQuota&) = delete;
  CpuQuota& operator=(const CpuQuota&) = delete;
  std::string description() const override {
    return fmt::format("a cgroup's quota of {} processors, periods of {} ms", processors_,
                       kPeriodUs / 1000);
  }

 private:
  bool enter(std::string& problem) {
    group_ = parent_ / fmt::format("talon-bench-{}", getpid());
    if (mkdir(group_.c_str(), 0755) != 0) {
      problem = fmt::format("{}: {}", group_.string(), std::strerror(errno));
      return false;
    }
    const auto quota_us = static_cast<int>(processors_ * kPeriodUs);
    const bool limited = write(group_ / "cpu.max", fmt::format("{} {}", quota_us, kPeriodUs)) ||
                         (write(group_ / "cpu.cfs_period_us", fmt::format("{}", kPeriodUs)) &&
                          write(group_ / "cpu.cfs_quota_us", fmt::format("{}", quota_us)));
    if (limited && write(group_ / "cgroup.procs", fmt::format("{}", getpid()))) return true;
    problem = fmt::format("{}: it takes no limit or no process", group_.string());
    leave();
    return false;
  }
  /// A process that has moved is back where such groups are made, which need not be where it was.
  void leave() {
    write(parent_ / "cgroup.procs", fmt::format("{}", getpid()));
    rmdir(group_.c_str());
  }
  static bool write(const fs::path& file, const std::string& text) {
    if (!fs::exists(file)) return false;
    std::ofstream stream(file);
    stream << text << std::flush;
    return stream.good();
  }

  double processors_;
  fs::path parent_, group_;
};

}  // namespace

std::unique_ptr<Neighbour> make_busy_loops(int count) {
  auto loops = std::make_unique<Processes>(fmt::format("{} busy loop(s)", count));
  for (int i = 0; i < count; ++i) loops->start(compute);
  return loops;
}

std::unique_ptr<Neighbour> make_compile_jobs(int jobs, int niceness) {
  const bool has_compiler = access("/usr/bin/g++", X_OK) == 0;
  const std::string script =
      "while :; do printf '#include <regex>\\n#include <map>\\n#include <string>\\n"
      "std::map<std::string, std::regex> all;\\n' | /usr/bin/g++ -std=c++17 -O2 -x c++ -S "
      "-o /dev/null - ; done";
  const std::vector<std::string> command = {"/bin/sh", "-c", script};
  const std::vector<char*> arguments = arguments_of(command);
  auto compilers = std::make_unique<Processes>(
      fmt::format("{} {} at nice {}", jobs,
                  has_compiler ? "g++ jobs" : "processes that write to memory (no g++)", niceness));
  for (int i = 0; i < jobs; ++i) {
    compilers->start([&] {
      const int now = nice(niceness);
      if (now == -1) _exit(1);
      if (!has_compiler) touch_memory();
      execv(arguments.front(), arguments.data());
    });
  }
  return compilers;
}

std::unique_ptr<Neighbour> make_program(const std::vector<std::string>& command,
                                        double patience_ms) {
  expects(!command.empty(), "a program to run");
  const std::vector<char*> arguments = arguments_of(command);
  auto program = std::make_unique<Processes>(fs::path(command.front()).filename().string());
  const ChildProcess& process = program->start([&] { execv(arguments.front(), arguments.data()); });
  if (!process.writes_within(patience_ms)) {
    fail("start {}: it has ended, or says nothing for {} s", command.front(), patience_ms / 1000);
  }
  return program;
}

std::unique_ptr<Neighbour> make_cpu_quota(double processors) {
  return std::make_unique<CpuQuota>(processors);
}

}  // namespace talon
