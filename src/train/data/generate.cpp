#include "train/data/generate.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/stopwatch.h"
#include "draft/registry.h"
#include "draw/picture_prompt.h"
#include "runtime/make_engine.h"
#include "train/data/recorder.h"

namespace talon {
namespace {

/// A conversation under way.
struct Running {
  const DataJob* job = nullptr;
  std::vector<TokenId> answer;
};

/// Of a cache that all conversations which run together fit.
std::size_t cache_positions(const Model& model, const DataPlan& plan,
                            const GenerateOptions& options) {
  std::size_t longest = 0;
  for (const AskedPrompt& prompt : plan.prompts) longest = std::max(longest, prompt.tokens.size());
  const auto most = static_cast<std::size_t>(model.config.context);
  const std::size_t length =
      std::min(longest + static_cast<std::size_t>(options.max_new), most) + kPageRows;
  const std::size_t streams = options.guidance > 1 ? 2 : 1;
  return positions_for(length) * static_cast<std::size_t>(options.batch) * streams;
}

EngineParts engine_parts(const Model& model, std::size_t positions, const GenerateOptions& options,
                         CommitListener& listener) {
  DrafterContext context;
  context.target = &model;
  context.heads = options.heads;
  context.cache_positions = positions;
  EngineParts parts{make_method(make_drafter(options.drafter, context), model, options.policy)};
  parts.options.chunk = options.chunk;
  parts.options.max_rows = std::max(options.max_rows, options.batch);
  parts.options.listener = &listener;
  return parts;
}

OwnedEngine start_engine(const Model& model, const DataPlan& plan, const GenerateOptions& options,
                         CommitListener& listener) {
  const std::size_t positions = cache_positions(model, plan, options);
  return make_engine(model, {kv_cache_bytes(model.config, options.kv, positions), options.kv},
                     engine_parts(model, positions, options, listener));
}

class Generation {
 public:
  Generation(const Model& model, const DataPlan& plan, const FinishedJobs& finished,
             ShardWriter& writer, const GenerateOptions& options)
      : model_(model),
        plan_(plan),
        options_(options),
        writer_(writer),
        hidden_(model.config.hidden),
        recorder_(options.taps, options.features, *model.backend, model.config.image.has_value()),
        engine_(start_engine(model, plan, options, recorder_)) {
    for (const DataJob& job : plan.jobs) {
      const auto found = finished.find(job.id);
      if (found == finished.end()) {
        left_.push_back(&job);
        continue;
      }
      ++report_.resumed_conversations;
      report_.resumed_response_tokens += found->second;
    }
  }

  GenerateReport run(const GenerateProgress& progress, const StopFlag& stop) {
    const Stopwatch watch;
    while (!stop.requested()) {
      submit();
      if (running_.empty()) break;
      for (const Progress& news : engine_->step()) take(news);
      report_.seconds = watch.ms() / 1000;
      if (progress) progress(report_, total());
    }
    writer_.flush();
    report_.copied_tokens = recorder_.copied_rows();
    report_.complete = running_.empty() && (next_ == left_.size() || has_enough());
    return report_;
  }

 private:
  std::uint64_t response_tokens() const {
    return report_.response_tokens + report_.resumed_response_tokens;
  }
  std::uint64_t conversations() const {
    return report_.conversations + report_.resumed_conversations;
  }
  double mean_response() const {
    if (conversations() == 0) return options_.max_new;
    return static_cast<double>(response_tokens()) / static_cast<double>(conversations());
  }
  /// Whether what runs will bring as many tokens as are wanted.
  bool has_enough() const {
    const double coming = mean_response() * static_cast<double>(running_.size());
    return options_.tokens > 0 &&
           static_cast<double>(response_tokens()) + coming >= static_cast<double>(options_.tokens);
  }
  std::uint64_t total() const {
    const auto all =
        static_cast<std::uint64_t>(mean_response() * static_cast<double>(plan_.jobs.size()));
    return options_.tokens > 0 ? std::min(options_.tokens, all) : all;
  }

  void submit() {
    while (running_.size() < static_cast<std::size_t>(options_.batch) && next_ < left_.size() &&
           !has_enough()) {
      const DataJob& job = *left_[next_++];
      auto running = std::make_unique<Running>();
      running->job = &job;
      const auto submitted = engine_->submit(request_for(job));
      if (const Refusal* refusal = std::get_if<Refusal>(&submitted)) throw Error(refusal->message);
      running_.emplace(std::get<SequenceId>(submitted), std::move(running));
    }
  }

  /// A ready-made response is the end of the prompt, but for its last token, which has no row: what
  /// is drawn in its place is not used.
  Request request_for(const DataJob& job) const {
    const AskedPrompt& asked = plan_.prompts[job.prompt];
    Request request;
    if (model_.config.image) {
      ask_for(model_, {asked.tokens, options_.guide_prompt, {}}, options_.guidance, request);
    } else {
      const bool is_ready = asked.response_begin > 0;
      request.prompt.assign(asked.tokens.begin(), asked.tokens.end() - (is_ready ? 1 : 0));
      request.max_new = is_ready ? 1 : options_.max_new;
    }
    request.sampler.temperature = asked.response_begin > 0 ? 0 : job.temperature;
    request.seed = job.seed;
    request.end_tokens = options_.end_tokens;
    return request;
  }

  void take(const Progress& news) {
    Running& running = *running_.at(news.sequence);
    running.answer.insert(running.answer.end(), news.tokens.begin(), news.tokens.end());
    report_.drawn_tokens += news.tokens.size();
    if (news.finish == FinishReason::none) return;
    if (news.finish == FinishReason::failed) throw Error(std::string(news.error));
    Recording recording = recorder_.take(news.sequence);
    if (!recording.problem.empty()) throw Error(recording.problem);
    const DataJob& job = *running.job;
    const AskedPrompt& asked = plan_.prompts[job.prompt];
    const auto response =
        static_cast<std::uint64_t>(write(running, job.id, asked.tokens, std::move(recording.own)));
    ++report_.conversations;
    report_.response_tokens += response;
    // No job has this name: what is counted, now and when it is gone on with, are the pictures.
    if (!recording.guide.bytes.empty())
      write(running, ~job.id, options_.guide_prompt, std::move(recording.guide));
    running_.erase(news.sequence);
  }

  /// Returns the tokens of the response.
  int write(const Running& running, std::uint64_t name, const std::vector<TokenId>& prompt,
            RecordedRows rows) {
    const AskedPrompt& asked = plan_.prompts[running.job->prompt];
    Record record;
    record.tokens = prompt;
    if (asked.response_begin == 0) {
      record.tokens.insert(record.tokens.end(), running.answer.begin(), running.answer.end());
    }
    record.response_begin =
        asked.response_begin > 0 ? asked.response_begin : static_cast<int>(prompt.size());
    record.source = asked.source;
    record.job = name;
    record.temperature = running.job->temperature;
    record.saturated = rows.saturated;
    record.features = std::move(rows.bytes);
    const auto values = static_cast<std::size_t>(hidden_) * options_.taps.size();
    const FeatureRows format{static_cast<std::uint32_t>(values), options_.features};
    const std::size_t bytes = (record.tokens.size() - 1) * format.row_bytes();
    expects(record.features.size() >= bytes, "a row for every token");
    record.features.resize(bytes);
    writer_.append(record);
    report_.prompt_tokens += static_cast<std::uint64_t>(record.response_begin);
    report_.saturated += record.saturated;
    return static_cast<int>(record.tokens.size()) - record.response_begin;
  }

  const Model& model_;
  const DataPlan& plan_;
  const GenerateOptions& options_;
  ShardWriter& writer_;
  std::map<SequenceId, std::unique_ptr<Running>> running_;
  int hidden_;
  Recorder recorder_;
  OwnedEngine engine_;
  std::vector<const DataJob*> left_;
  std::size_t next_ = 0;
  GenerateReport report_;
};

}  // namespace

FinishedJobs finished_jobs(const std::filesystem::path& folder, const ShardKind& kind) {
  FinishedJobs finished;
  for (const auto& path : list_shards(folder)) {
    if (std::filesystem::file_size(path) == 0) continue;
    for (const RecordPlace& place : scan_shard(MappedFile(path), kind).records) {
      finished.emplace(place.header.job, place.header.tokens - place.header.response_begin);
    }
  }
  return finished;
}

GenerateReport generate(const Model& model, const DataPlan& plan, const FinishedJobs& finished,
                        ShardWriter& writer, const GenerateOptions& options,
                        const GenerateProgress& progress, const StopFlag& stop) {
  Generation generation(model, plan, finished, writer, options);
  return generation.run(progress, stop);
}

}  // namespace talon
