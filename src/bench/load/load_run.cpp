#include "bench/load/load_run.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <random>
#include <thread>

#include "bench/peer/event_stream.h"
#include "core/stopwatch.h"
#include "net/http_transfer.h"

namespace talon {
namespace {

constexpr int kQuietSeconds = 300;
constexpr int kLongAnswer = 8;  // tokens after a long prompt
constexpr auto kLongPause = std::chrono::milliseconds(300);
constexpr auto kErrorPause = std::chrono::milliseconds(100);  // a server that refuses all is not
                                                              // asked a thousand times a second
constexpr std::size_t kRefusalBytes = 300;

/// The clients of one slice.
class Clients {
 public:
  Clients(LoadServer& server, const LoadPrompts& prompts, int first, const LoadSettings& settings,
          const StopFlag& stop)
      : server_(server), prompts_(prompts), next_(first), settings_(settings), stop_(stop) {}

  bool is_over() const { return stop_.requested() || watch_.ms() >= 1000 * settings_.seconds; }

  /// One question after the other.
  void ask_on() {
    while (!is_over()) {
      const int number = next_++;
      const auto make = [&] { return prompts_.at(number); };
      if (!ask(number, make, watch_.ms())) std::this_thread::sleep_for(kErrorPause);
    }
  }
  void ask_long() {
    for (int i = 0; !is_over(); ++i) {
      const auto make = [&] {
        LoadPrompt prompt = prompts_.long_at(i, settings_.long_tokens);
        prompt.max_new = std::min(prompt.max_new, kLongAnswer);
        return prompt;
      };
      ask(i, make, watch_.ms(), /*is_long=*/true);
      std::this_thread::sleep_for(kLongPause);
    }
  }
  /// Each at its time, in a thread of its own.
  void ask_at(const std::vector<double>& seconds) {
    std::vector<std::thread> threads;
    for (const double second : seconds) {
      const int number = next_++;
      while (!is_over() && watch_.ms() < 1000 * second) {
        const double left = 1000 * second - watch_.ms();
        std::this_thread::sleep_for(
            std::chrono::duration<double, std::milli>(std::min(left, 50.0)));
      }
      if (is_over()) break;
      threads.emplace_back([this, number, second] {
        ask(
            number, [&] { return prompts_.at(number); }, 1000 * second);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<LoadAnswer> take() {
    std::sort(answers_.begin(), answers_.end(),
              [](const LoadAnswer& a, const LoadAnswer& b) { return a.begin < b.begin; });
    return std::move(answers_);
  }

 private:
  /// False if something went wrong.
  template <typename Make>
  bool ask(int number, const Make& make, double begin, bool is_long = false) {
    LoadAnswer answer;
    answer.prompt = number;
    answer.is_long = is_long;
    answer.begin = begin;
    try {
      receive(make(), answer);
    } catch (const std::exception& error) {
      answer.error = error.what();
    }
    const bool went_well = answer.error.empty();
    const std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
    return went_well;
  }

  void receive(const LoadPrompt& prompt, LoadAnswer& answer) const {
    EventStream stream([&](std::string_view text) {
      answer.text += text;
      answer.pieces.push_back(watch_.ms());
    });
    std::string refusal;
    HttpTransfer transfer;
    transfer.url = server_.completions_url();
    transfer.silence_seconds = kQuietSeconds;
    transfer.headers = {"Content-Type: application/json"};
    transfer.body = server_.body_of(prompt, settings_.sampler).dump();
    transfer.stops = [&] { return is_over(); };
    transfer.on_data = [&](int status, std::string_view bytes) {
      if (is_over()) return false;
      if (status == kHttpDone) {
        stream.push(bytes);
      } else {
        refusal += bytes;
      }
      return true;
    };
    const TransferOutcome outcome = run_transfer(transfer);
    answer.is_whole = stream.is_complete() && stream.error().empty();
    if (answer.is_whole || is_over()) return;
    answer.error = error_of(outcome, stream, refusal);
  }

  static std::string error_of(const TransferOutcome& outcome, const EventStream& stream,
                              const std::string& refusal) {
    if (!stream.error().empty()) return stream.error();
    if (outcome.end != TransferOutcome::End::done) return outcome.problem;
    if (outcome.status != kHttpDone) {
      return fmt::format("HTTP status {}: {}", outcome.status, refusal.substr(0, kRefusalBytes));
    }
    return "stream: expected an end, found none";
  }

  LoadServer& server_;
  const LoadPrompts& prompts_;
  std::atomic<int> next_;
  const LoadSettings& settings_;
  const StopFlag& stop_;
  const Stopwatch watch_;
  std::mutex mutex_;
  std::vector<LoadAnswer> answers_;
};

}  // namespace

std::string name_of(const LoadLevel& level) {
  return level.is_open ? fmt::format("{:g}/s", level.value)
                       : fmt::format("{:g} at once", level.value);
}

std::vector<double> arrivals(double per_second, double seconds, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> times;
  for (double time = 0;;) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    time += -std::log1p(-uniform) / per_second;
    if (time >= seconds) return times;
    times.push_back(time);
  }
}

std::vector<LoadAnswer> run_slice(LoadServer& server, const LoadPrompts& prompts, int first,
                                  const LoadLevel& level, const LoadSettings& settings,
                                  const StopFlag& stop) {
  Clients clients(server, prompts, first, settings, stop);
  std::vector<std::thread> threads;
  if (settings.long_tokens > 0) threads.emplace_back([&] { clients.ask_long(); });
  if (level.is_open) {
    clients.ask_at(arrivals(level.value, settings.seconds, settings.seed));
  } else {
    for (int i = 0; i < static_cast<int>(level.value); ++i) {
      threads.emplace_back([&] { clients.ask_on(); });
    }
  }
  for (std::thread& thread : threads) thread.join();
  return clients.take();
}

}  // namespace talon
