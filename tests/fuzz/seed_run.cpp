#include "seed_run.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <new>
#include <string_view>

#include "core/error.h"
#include "io/sha256.h"

namespace talon::fuzz {
namespace {

constexpr int kMostJobs = 64;
constexpr int kSeedSeconds = 60;   // of a processor: one that computes on
constexpr int kWaitSeconds = 900;  // one that waits for nothing, however busy the machine is
constexpr std::uint64_t kIdle = std::numeric_limits<std::uint64_t>::max();

struct RunOptions {
  double seconds = 0;
  std::uint64_t situations = 0;
  std::uint64_t seed = 1;
  int jobs = 1;
  std::string state;
};

/// A signal ends this process after so many seconds; 0: none does.
void limit_time(int computing, int waiting) {
  const itimerval limit{{0, 0}, {computing, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
  alarm(static_cast<unsigned>(waiting));
}

RunOptions parse(int argc, char** argv) {
  std::map<std::string_view, std::string> given;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) throw UsageError(fmt::format("{}: expected a value", argv[i]));
    given[argv[i]] = argv[i + 1];
  }
  RunOptions options;
  for (const auto& [name, value] : given) {
    try {
      if (name == "--seconds") {
        options.seconds = std::stod(value);
      } else if (name == "--situations") {
        options.situations = std::stoull(value);
      } else if (name == "--seed") {
        options.seed = std::stoull(value);
      } else if (name == "--jobs") {
        options.jobs = std::stoi(value);
      } else if (name == "--state") {
        options.state = value;
      } else {
        throw UsageError(fmt::format(
            "expected --seconds, --situations, --seed, --jobs or --state, found {}", name));
      }
    } catch (const std::logic_error&) {
      throw UsageError(fmt::format("{}: expected a number, found \"{}\"", name, value));
    }
  }
  if (options.jobs < 0 || options.jobs > kMostJobs) throw UsageError("--jobs: expected 0 to 64");
  if (options.seconds == 0 && options.situations == 0) options.seconds = 20;
  return options;
}

/// What all processes see.
struct Shared {
  std::atomic<std::uint64_t> next{0};  // situation to try, counted from the first seed
  std::atomic<std::uint64_t> found{0};
  std::atomic<std::uint64_t> current[kMostJobs];  // kIdle: none
};

class SeedRun {
 public:
  SeedRun(const RunOptions& options, const std::function<Trial()>& make)
      : options_(options), make_(make) {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error("no memory to share");
    shared_ = new (memory) Shared;
    for (auto& current : shared_->current) current = kIdle;
    if (!options.state.empty()) go_on();
    begun_ = shared_->next;
  }
  ~SeedRun() { munmap(shared_, sizeof(Shared)); }
  SeedRun(const SeedRun&) = delete;
  SeedRun& operator=(const SeedRun&) = delete;

  int run() {
    if (options_.jobs == 0) {
      work(0);
    } else {
      for (int job = 0; job < options_.jobs; ++job) start(job);
      while (!jobs_.empty()) watch();
    }
    report(true);
    return shared_->found == 0 ? 0 : 1;
  }

 private:
  /// Where the state says that this very program was stopped.
  void go_on() {
    program_ = sha256_of_file("/proc/self/exe");
    std::uint64_t next = 0, found = 0;
    std::string program;
    std::ifstream state(options_.state);
    if (!(state >> next >> found)) return;
    if (!(state >> program) || program != program_) {
      std::cerr << fmt::format("{}: {} situations and {} findings of another program: anew\n",
                               options_.state, next, found);
      return;
    }
    shared_->next = next;
    shared_->found = found;
  }

  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  bool ended() const { return options_.seconds > 0 && elapsed() > options_.seconds; }

  void work(int job) {
    const Trial trial = make_();
    while (!ended()) {
      const std::uint64_t index = shared_->next++;
      if (options_.situations > 0 && index >= options_.situations) {
        --shared_->next;
        break;
      }
      shared_->current[job] = index;
      if (options_.jobs > 0) limit_time(kSeedSeconds, kWaitSeconds);
      if (const auto wrong = trial(options_.seed + index)) note(index, *wrong);
      limit_time(0, 0);
    }
    shared_->current[job] = kIdle;
  }

  void note(std::uint64_t index, const std::string& wrong) {
    ++shared_->found;
    std::cout << fmt::format("seed {}: {}", options_.seed + index, wrong) << std::endl;
  }

  void start(int job) {
    std::cout.flush();
    const pid_t process = fork();
    if (process < 0) throw Error("no process");
    if (process == 0) {
      int code = 0;
      try {
        work(job);
      } catch (const std::exception& error) {
        std::cout << "stopped: " << error.what() << std::endl;
        code = 1;
      }
      std::cout.flush();
      _exit(code);
    }
    jobs_[process] = job;
  }

  /// Waits for news of a process, for a short while.
  void watch() {
    int status = 0;
    const pid_t process = waitpid(-1, &status, WNOHANG);
    if (process <= 0) {
      usleep(100'000);
      report(false);
      return;
    }
    const int job = jobs_.at(process);
    jobs_.erase(process);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    const std::uint64_t index = shared_->current[job].exchange(kIdle);
    if (index == kIdle) throw Error("a process could not begin");
    note(index, WIFSIGNALED(status) ? fmt::format("ended by {}", strsignal(WTERMSIG(status)))
                                    : "ended the process");
    if (!ended()) start(job);
  }

  void report(bool last) {
    constexpr double kEvery = 5;
    if (!last && elapsed() < reported_ + kEvery) return;
    reported_ = elapsed();
    // What other processes are still at is tried again.
    std::uint64_t next = shared_->next;
    for (const auto& current : shared_->current) next = std::min<std::uint64_t>(next, current);
    if (!options_.state.empty()) {
      std::ofstream(options_.state) << next << " " << shared_->found << " " << program_ << "\n";
    }
    std::cerr << fmt::format("{} situations from seed {}, {:.1f} a second, {} findings\n", next,
                             options_.seed, static_cast<double>(next - begun_) / elapsed(),
                             shared_->found.load());
  }

  const RunOptions& options_;
  const std::function<Trial()>& make_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Shared* shared_ = nullptr;
  std::string program_;  // its hash, where there is a state
  std::uint64_t begun_ = 0;
  double reported_ = 0;
  std::map<pid_t, int> jobs_;
};

}  // namespace

int run_seeds(int argc, char** argv, const std::function<Trial()>& make) {
  try {
    const RunOptions options = parse(argc, argv);
    return SeedRun(options, make).run();
  } catch (const UsageError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

}  // namespace talon::fuzz
