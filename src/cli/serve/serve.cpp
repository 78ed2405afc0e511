#include <fmt/ranges.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/command.h"
#include "cli/options/draft_options.h"
#include "cli/options/opened_model.h"
#include "cli/options/places.h"
#include "cli/serve/serve_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/train/train_head.h"
#include "core/error.h"
#include "draw/picture_prompt.h"
#include "runtime/cache_budget.h"
#include "serve/http/http_server.h"
#include "text/prompt.h"

namespace talon {
namespace {

using Clock = std::chrono::steady_clock;
constexpr long kLastWordsMs = 5000;  // for answers that were cut off to be sent
constexpr long kWaitMs = 20;
constexpr long kTrimMs = 5000;  // between looks whether memory can be given back

/// The ending_signals(), kept from every thread that is started while this lives: they wait until
/// somebody asks for them.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&signals_);
    for (const int signal : ending_signals()) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  ~HeldSignals() { pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// Waits for one; false if it was `who` that sent it, with pthread_sigqueue().
  bool await_from_other_than(const void* who) const {
    siginfo_t info = {};
    while (sigwaitinfo(&signals_, &info) < 0) {
    }
    return info.si_code != SI_QUEUE || info.si_value.sival_ptr != who;
  }
  /// Whether one came within `ms`.
  bool came_within(long ms) const {
    const timespec time = {ms / 1000, ms % 1000 * 1'000'000};
    return sigtimedwait(&signals_, nullptr, &time) > 0;
  }

 private:
  sigset_t signals_ = {};
};

/// While it lives, a signal ends the process: nothing waits for models that nobody wants any more.
class EndsBySignal {
 public:
  explicit EndsBySignal(const HeldSignals& signals)
      : thread_([this, &signals] {
          if (signals.await_from_other_than(this)) _exit(kExitInterrupted);
        }) {}
  ~EndsBySignal() {
    pthread_sigqueue(thread_.native_handle(), SIGTERM, {.sival_ptr = this});
    thread_.join();
  }
  EndsBySignal(const EndsBySignal&) = delete;
  EndsBySignal& operator=(const EndsBySignal&) = delete;

 private:
  std::thread thread_;
};

LearnOptions learn_options(const ServeCommandOptions& options, bool draws) {
  if (options.models.size() > 1) {
    throw UsageError(fmt::format("--learn: expected one model, found {}", options.models.size()));
  }
  if (draws) throw UsageError("--learn: expected a model that writes text, found one that draws");
  LearnOptions learn;
  learn.folder = options.learn_folder;
  learn.trainer = trainer_program();
  learn.keep = options.learn_keep;
  learn.share = options.learn_share;
  learn.least_tokens = options.learn_tokens;
  learn.room_bytes = static_cast<std::size_t>(options.learn_room_mb) << 20;
  learn.note = [](const std::string& text) { write_note(text); };
  return learn;
}

/// promised: bytes of the caches of models that are open.
ServedModel open_served(const ServeCommandOptions& options, const NamedModel& named,
                        std::size_t& promised) {
  ModelOptions source = options.model;
  source.model = named.model;
  LoadedModel loaded = load_with_meter(source);
  const bool draws = loaded.model.config.image.has_value();
  if (!draws) loaded.require_tokenizer();
  const auto bytes = static_cast<std::size_t>(source.cache_mb) << 20;
  auto cache = open_cache(loaded.model, {bytes, source.kv, promised});
  promised += cache->bytes();
  HostOptions host;
  host.decode = options.decode;
  use_places(host.decode, loaded, cache->store().shape.type);
  host.step_ms = options.step_ms;
  host.queue = options.server.queue;
  host.note = [name = named.names.front()](const std::string& text) { note("{}: {}", name, text); };
  if (!options.learn_folder.empty()) host.learn = learn_options(options, draws);
  ServedModel served;
  served.name = named.names.front();
  served.other_names.assign(named.names.begin() + 1, named.names.end());
  if (draws) {
    host.decode.codebook = codebook_of(loaded.model, options.vq);
    served.pictures = open_studio(loaded, options.vq, options.decode, source.backend,
                                  cache_type(loaded.model, source.kv));
  } else if (loaded.tokenizer->chat_template()) {
    served.chat = chat_template_of(*loaded.tokenizer);
    served.tool_chat = tool_template_of(*loaded.tokenizer);
  }
  served.host = std::make_unique<ModelHost>(std::move(loaded), std::move(cache), std::move(host));
  return served;
}

/// A descriptor for each connection and for files, as far as the system lets this process have
/// them.
void allow_descriptors(int connections) {
  constexpr rlim_t kFiles = 64;
  const rlim_t wanted = static_cast<rlim_t>(connections) + kFiles;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// Where no model draws.
void refuse_picture_flags(const ServeCommandOptions& options) {
  const char* flag = !options.vq.empty()            ? "--vq"
                     : options.model.image_side > 0 ? "--cells"
                                                    : nullptr;
  if (flag) throw UsageError(fmt::format("{}: expected a model that draws, found none", flag));
}

class Serve : public Command {
 public:
  explicit Serve(CLI::App& parent)
      : Command(parent.add_subcommand("serve", "answer over HTTP, as OpenAI's interface does")) {
    add_serve_flags(*app_, options_);
  }

  int run() override {
    split_drafter(*app_, options_.decode);
    ::signal(SIGPIPE, SIG_IGN);  // who reads the notes may leave
    const auto start = Clock::now();
    const HeldSignals signals;
    options_.server.api_keys = api_keys(options_);
    options_.server.note = [](const std::string& text) { write_note(text); };
    allow_descriptors(options_.server.http.limits.connections);
    { const HttpServer probe(options_.server.http, {}); }  // fails before models are loaded
    Server server(options_.server, open_models(signals));
    const std::chrono::duration<double> seconds = Clock::now() - start;
    note("listening on {} (ready after {:.2f} s)", server.address(), seconds.count());
    while (!signals.came_within(kTrimMs)) give_back_memory(server);
    return drain(server, signals);
  }

 private:
  std::vector<ServedModel> open_models(const HeldSignals& signals) const {
    const EndsBySignal loading(signals);
    std::vector<ServedModel> models;
    std::size_t promised = 0;
    for (const NamedModel& named : named_models(options_.models)) {
      models.push_back(open_served(options_, named, promised));
      note("{}: {}, drafter {}", fmt::join(named.names, ", "),
           models.back().host->loaded().path.string(), models.back().host->drafter());
    }
    const bool draws = std::ranges::any_of(
        models, [](const ServedModel& model) { return model.pictures != nullptr; });
    if (!draws) refuse_picture_flags(options_);
    return models;
  }
  /// What one large request took stays with the process otherwise: small blocks that outlive it
  /// keep the pages around them. Only of a server that rests, since whoever allocates meanwhile
  /// waits.
  static void give_back_memory(const Server& server) {
    if (server.idle()) malloc_trim(0);
  }
  int drain(Server& server, const HeldSignals& signals) const {
    note("ending: running answers have {} s; another signal ends at once", options_.drain_s);
    server.drain();
    const auto end = Clock::now() + std::chrono::duration<double>(options_.drain_s);
    while (!server.idle() && Clock::now() <= end) wait(signals);
    if (!server.idle()) server.cancel_all();
    // Counted in waits and not by the clock: a process that is stopped or starved meanwhile has its
    // last words all the same.
    for (int waits = 0; !server.idle() && waits * kWaitMs < kLastWordsMs; ++waits) wait(signals);
    return kExitDone;
  }

  /// A short while. Another signal ends the process.
  void wait(const HeldSignals& signals) const {
    if (!signals.came_within(kWaitMs)) return;
    if (!options_.server.http.unix_path.empty()) unlink(options_.server.http.unix_path.c_str());
    _exit(kExitInterrupted);
  }

  ServeCommandOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_serve(CLI::App& parent) { return std::make_unique<Serve>(parent); }

}  // namespace talon
