#include "bench/peer/server_process.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "bench/peer/peer_http.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "net/http_transfer.h"

namespace talon {
namespace {

constexpr double kStartMs = 180'000;

void expect_files(const PeerChoice& choice, const PeerSetting& setting) {
  if (setting.model.extension() != ".gguf") {
    throw UsageError(fmt::format("{}: expected a GGUF file, which is what it reads, got {}",
                                 choice.name, setting.model.string()));
  }
  if (!choice.draft.empty() && !std::filesystem::is_regular_file(choice.draft)) {
    throw UsageError(fmt::format("{}: expected a GGUF file to draft with, found no file {}",
                                 choice.name, choice.draft));
  }
}

/// A port is told as the first argument.
std::function<std::vector<std::string>(int port)> on_port(std::vector<std::string> words) {
  return [words = std::move(words)](int port) {
    std::vector<std::string> all = words;
    all.insert(all.begin() + 1, {"--port", std::to_string(port)});
    return all;
  };
}

std::string program_of(const std::string& place) {
  const bool is_folder = std::filesystem::is_directory(place);
  return is_folder ? (std::filesystem::path(place) / "llama-server").string() : place;
}

}  // namespace

ServerProcess::ServerProcess(const std::function<std::vector<std::string>(int port)>& command)
    : url_(fmt::format("http://127.0.0.1:{}", port_)), process_(command(port_)) {}

void ServerProcess::await_ready(const std::string& doing) {
  const Stopwatch watch;
  for (;;) {
    if (!process_.running()) fail("{}: it ended: {}", doing, process_.last_output());
    try {
      if (http_request(doing, url_ + "/health").status == kHttpDone) return;
    } catch (const Error&) {  // not listening yet
    }
    if (watch.ms() > kStartMs) {
      fail("{}: expected it to be ready within {:.0f} s: {}", doing, kStartMs / 1000,
           process_.last_output());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::function<std::vector<std::string>(int port)> adapter_command(const PeerChoice& choice,
                                                                  const PeerSetting& setting) {
  expect_files(choice, setting);
  std::vector<std::string> words = {choice.place,
                                    "--model",
                                    setting.model.string(),
                                    "--threads",
                                    std::to_string(setting.threads),
                                    "--context",
                                    std::to_string(setting.context)};
  if (!choice.speculation.empty()) words.insert(words.end(), {"--speculation", choice.speculation});
  if (!choice.draft.empty()) words.insert(words.end(), {"--draft", choice.draft});
  return on_port(std::move(words));
}

std::function<std::vector<std::string>(int port)> llama_server_command(
    const PeerChoice& choice, const PeerSetting& setting, int slots, const std::string& cache_mb) {
  expect_files(choice, setting);
  const int context = setting.context * slots;
  std::vector<std::string> words = {program_of(choice.place),
                                    "--model",
                                    setting.model.string(),
                                    "--host",
                                    "127.0.0.1",
                                    "--threads",
                                    std::to_string(setting.threads),
                                    "--ctx-size",
                                    std::to_string(context),
                                    "--parallel",
                                    std::to_string(slots),
                                    "--no-webui",
                                    "--cache-ram",
                                    cache_mb};
  if (!choice.speculation.empty()) words.insert(words.end(), {"--spec-type", choice.speculation});
  if (!choice.draft.empty()) words.insert(words.end(), {"--spec-draft-model", choice.draft});
  return on_port(std::move(words));
}

}  // namespace talon
