#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/options/opened_model.h"
#include "cli/options/prompt_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "draft/head/head_config.h"
#include "draw/picture_prompt.h"
#include "runtime/cache_budget.h"
#include "runtime/heads/auto_drafter.h"
#include "train/data/generate.h"
#include "train/data/manifest.h"

namespace talon {
namespace {

constexpr int kMostTokens = 1 << 20;
constexpr const char* kPictureMix = "1";  // codes are drawn at it

/// "0/2": the first of two.
void parse_shard(const std::string& text, PlanOptions& plan) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) {
    throw UsageError(fmt::format("--shard: expected I/N, such as 0/2, got \"{}\"", text));
  }
  plan.shards =
      static_cast<int>(parse_int("--shard", std::string_view(text).substr(slash + 1), 1, 999));
  plan.shard = static_cast<int>(
      parse_int("--shard", std::string_view(text).substr(0, slash), 0, plan.shards - 1));
}

Json files_json(const std::vector<std::string>& files) {
  Json list = Json::array();
  for (const std::string& file : files) {
    list.push_back({{"name", std::filesystem::path(file).filename().string()},
                    {"sha256", model_checksum(file)}});
  }
  return list;
}

class TrainData : public Command {
 public:
  explicit TrainData(CLI::App& parent)
      : Command(parent.add_subcommand(
            "data", "let the target answer prompts, and record what draft heads learn from")) {
    add_model_flag(*app_, model_);
    app_->add_option("--prompts", prompts_,
                     "JSON lines (.jsonl, .jsonl.zst) with \"prompt\", \"source\", \"licence\"")
        ->type_name("FILE...");
    app_->add_option("--responses", responses_,
                     "ready-made answers to read: JSON lines with \"prompt_ids\", "
                     "\"response_ids\", \"temperature\", \"source\", or a folder of this command")
        ->type_name("PATH...");
    app_->add_option(
            "--held-out", held_out_,
            "questions (\"turns\" or \"prompt\") that prompts must not share 13 words with")
        ->type_name("FILE...");
    app_->add_option("-o,--out", folder_, "folder of the data; a run into it is gone on with")
        ->required()
        ->type_name("FOLDER");
    add_answer_options();
    add_work_options();
    add_cells_flag(*app_, model_);
    add_forward_flags(*app_, model_);
    app_->add_flag("--json", json_, "print one JSON object at the end");
  }

  int run() override {
    check_options();
    const LoadedModel loaded = load_with_meter(model_);
    options_.end_tokens = loaded.end_tokens;
    options_.heads = heads_at_hand(loaded);
    options_.drafter =
        resolve_drafter(options_.drafter, options_.heads, output_kind(loaded.model.config));
    if (loaded.model.config.image) {
      prepare_pictures(loaded.model);
    } else if (guidance_ > 1) {
      throw UsageError(fmt::format("--guidance: expected a model that draws, got {}, which writes",
                                   loaded.model.source.filename().string()));
    }
    options_.max_new = responses_.empty() ? plan_.max_new : 1;
    options_.kv = cache_type(loaded.model, model_.kv);
    choose_features(loaded.model.config);
    const DataPlan plan = make_plan(loaded);
    const Manifest manifest = add_run(folder_, target_of(loaded), run_json(loaded, plan));
    ShardWriter writer({folder_, plan_.shard, plan_.shards, manifest.shard_kind()},
                       [](const std::string& text) { write_note(text); });
    const FinishedJobs finished = finished_jobs(folder_, manifest.shard_kind());
    const GenerateReport report = work(loaded, plan, finished, writer);
    update_counts(folder_);
    say(report);
    return report.complete ? kExitDone : kExitInterrupted;
  }

 private:
  void add_answer_options() {
    const char* group = "Answers";
    add_int(*app_, "--samples", plan_.samples, 1, 1 << 20, "answers to each prompt")->group(group);
    add_int(*app_, "-n,--max-new", plan_.max_new, 1, kMostTokens,
            "most tokens of an answer; pictures have all their codes")
        ->group(group);
    add_int(*app_, "--max-prompt", plan_.max_prompt, 1, kMostTokens,
            "tokens; longer prompts are left out")
        ->group(group);
    app_->add_option("--temperature-mix", mix_, "TEMPERATURE[-TO][:WEIGHT],...")
        ->type_name("MIX")
        ->default_str(mix_ + "; pictures: " + kPictureMix)
        ->group(group);
    add_real(*app_, "--guidance", guidance_, 1, 100,
             "of pictures; above 1 the rows of the guide are recorded, too")
        ->group(group);
    add_count(*app_, "--seed", plan_.seed, "of the answers")->group(group);
    app_->add_flag_callback(
            "--no-chat", [this] { chat_ = false; }, "prompts are plain text: no chat template")
        ->group(group);
  }

  void add_work_options() {
    const char* group = "Work";
    add_count(*app_, "--tokens", tokens_, "response tokens to stop at, 0 for all answers")
        ->group(group);
    add_choice<std::string>(*app_, "--features", features_,
                            {{"f16", "f16"}, {"q8", "q8"}, {"none", "none"}},
                            "how the target's vectors are stored; q8: half of the space")
        ->group(group);
    add_int(*app_, "--batch", options_.batch, 1, 4096, "conversations at once")->group(group);
    app_->add_option("--shard", shard_, "this process's part of the work, I/N: 0/2 and 1/2")
        ->type_name("I/N")
        ->capture_default_str()
        ->group(group);
    app_->add_option("-d,--drafter", options_.drafter, "name[:key=value,...]")
        ->type_name("DRAFTER")
        ->capture_default_str()
        ->group(group);
    app_->add_option("--policy", options_.policy, "how large trees are")
        ->type_name("POLICY")
        ->capture_default_str()
        ->group(group);
  }

  void check_options() {
    if (prompts_.empty() == responses_.empty()) {
      throw UsageError("expected either --prompts or --responses");
    }
    if (prompts_.empty()) read_as_they_are();
    parse_shard(shard_, plan_);
    plan_.temperatures = TemperatureMix(mix_);
    const auto shards = static_cast<std::uint64_t>(plan_.shards);
    options_.tokens = (tokens_ + shards - 1) / shards;
  }

  /// Ready-made answers: as long as the context allows unless the user wants fewer of them.
  void read_as_they_are() {
    for (const char* flag :
         {"--held-out", "--samples", "--temperature-mix", "--seed", "--no-chat"}) {
      if (app_->count(flag) == 0) continue;
      throw UsageError(
          fmt::format("{}: expected --prompts; ready-made answers are read as they are", flag));
    }
    if (app_->count("--max-new") == 0) plan_.max_new = kMostTokens;
    if (app_->count("--max-prompt") == 0) plan_.max_prompt = kMostTokens;
  }

  /// A picture is asked for by its prompt and has as many codes as it has; it ends with the last.
  void prepare_pictures(const Model& model) {
    const ImagePlan& image = *model.config.image;
    if (image.prompts_vary()) {
      throw Error(
          fmt::format("train data: of models that draw, expected one that is asked by words or a "
                      "class, found {}",
                      model.source.string()));
    }
    if (!responses_.empty())
      throw UsageError("--responses: expected a model that writes; pictures are drawn");
    if (app_->count("--temperature-mix") == 0) {
      mix_ = kPictureMix;
      plan_.temperatures = TemperatureMix(mix_);
    }
    plan_.max_new = image.answer_tokens();
    options_.guidance = static_cast<float>(guidance_);
    plan_.guidance = options_.guidance;
    options_.end_tokens.clear();
    chat_ = false;
  }

  void choose_features(const ModelConfig& config) {
    const std::optional<FeatureType> type = feature_type_of(features_);
    if (!type) return;
    options_.features = *type;
    options_.taps = taps_of(config);
    if (type == FeatureType::q8 && config.hidden % static_cast<int>(FeatureRows::kGroup) != 0) {
      throw Error(
          fmt::format("--features q8: expected vectors of a multiple of {} numbers, found {}: use "
                      "f16",
                      FeatureRows::kGroup, config.hidden));
    }
  }

  static std::vector<FeatureTap> taps_of(const ModelConfig& config) {
    std::vector<FeatureTap> taps;
    for (const int layer : usual_tap_layers(config.layers)) taps.push_back({layer});
    taps.push_back({FeatureTap::kFinalNorm});
    return taps;
  }

  /// What a user's message becomes: the model's chat template with its default system message.
  EncodePrompt encoder(const LoadedModel& loaded) {
    if (loaded.model.config.image) {
      return [this, &model = loaded.model](const std::string& text) {
        PicturePrompt prompt = text_prompt(model, nullptr, text);
        options_.guide_prompt = std::move(prompt.guide);  // the same for all
        return std::move(prompt.own);
      };
    }
    const Tokenizer& tokenizer = loaded.require_tokenizer();
    if (!chat_ || !tokenizer.chat_template()) {
      return [&tokenizer](const std::string& text) { return encode_prompt(tokenizer, text); };
    }
    auto chat =
        std::make_shared<ChatTemplate>(chat_template_of(tokenizer));  // std::function copies
    return [&tokenizer, chat](const std::string& text) {
      const ChatMessage message{"user", text};
      return encode_chat(tokenizer, *chat, std::span(&message, 1)).tokens;
    };
  }

  DataPlan make_plan(const LoadedModel& loaded) {
    const int context = loaded.model.config.context;
    plan_.max_prompt = std::min(plan_.max_prompt, context - 1);
    plan_.context = context;
    if (!responses_.empty()) {
      std::vector<ReadyResponse> all;
      for (const std::string& file : responses_) {
        const auto some = read_responses(file, loaded.model.config.vocabulary);
        all.insert(all.end(), some.begin(), some.end());
      }
      return plan_responses(all, plan_);
    }
    Overlap overlap;
    for (const std::string& file : held_out_) {
      for (const std::string& text : read_questions_held_out(file)) overlap.hold_out(text);
    }
    std::vector<Prompt> all;
    for (const std::string& file : prompts_) {
      const auto some = read_prompts(file);
      all.insert(all.end(), some.begin(), some.end());
    }
    for (const Prompt& prompt : all) ++sources_[{prompt.source, prompt.licence}];
    return plan_prompts(all, encoder(loaded), overlap, plan_);
  }

  Manifest target_of(const LoadedModel& loaded) const {
    const ModelConfig& config = loaded.model.config;
    Manifest manifest;
    manifest.info.model = std::filesystem::path(model_.model).filename().string();
    manifest.info.model_sha256 = model_checksum(loaded.path);
    manifest.info.hidden = config.hidden;
    manifest.info.vocabulary = config.input_count();
    for (const FeatureTap& tap : options_.taps) manifest.info.taps.push_back(tap.layer);
    manifest.info.features = options_.features;
    manifest.info.fingerprint = loaded.fingerprint;
    manifest.target_settings = {{"weights", name_of(model_.weights)},
                                {"activations", activations_json(loaded.activations)},
                                {"cache", name_of(options_.kv)}};
    return manifest;
  }

  Json run_json(const LoadedModel& loaded, const DataPlan& plan) const {
    Json json = {{"kind", prompts_.empty() ? "responses" : "prompts"},
                 {"files", files_json(prompts_.empty() ? responses_ : prompts_)},
                 {"max_prompt", plan_.max_prompt},
                 {"max_new", plan_.max_new},
                 {"read", plan.read},
                 {"left_out",
                  {{"duplicates", plan.duplicates},
                   {"held_out", plan.held_out},
                   {"too_long", plan.too_long}}}};
    if (prompts_.empty()) return json;
    json["held_out"] = files_json(held_out_);
    json["samples"] = plan_.samples;
    json["temperature_mix"] = mix_;
    json["seed"] = plan_.seed;
    json["end_tokens"] = options_.end_tokens;
    json["chat_template"] = chat_ && loaded.require_tokenizer().chat_template().has_value();
    if (options_.guidance > 1) json["guidance"] = guidance_;
    for (const auto& [source, prompts] : sources_) {
      json["sources"].push_back(
          {{"source", source.first}, {"licence", source.second}, {"prompts", prompts}});
    }
    return json;
  }

  GenerateReport work(const LoadedModel& loaded, const DataPlan& plan, const FinishedJobs& finished,
                      ShardWriter& writer) {
    note(
        "{} of {} prompts (left out: {} duplicates, {} held out, {} too long), {} answers in this "
        "shard, {} conversations in the folder",
        plan.prompts.size(), plan.read, plan.duplicates, plan.held_out, plan.too_long,
        plan.jobs.size(), finished.size());
    ProgressMeter meter("train data, response tokens");
    const InterruptGuard interrupt;
    return generate(
        loaded.model, plan, finished, writer, options_,
        [&](const GenerateReport& report, std::uint64_t total) {
          const std::uint64_t before = report.resumed_response_tokens;
          meter.update(std::max(report.response_tokens, report.drawn_tokens),
                       total > before ? total - before : 0);
        },
        interrupt.stop());
  }

  void say(const GenerateReport& report) const {
    const double seconds = std::max(report.seconds, 1e-9);
    const double rate = static_cast<double>(report.response_tokens) / seconds;
    note(
        "{} conversations, {} response tokens in {:.1f} s: {:.1f} tokens/s; {} conversations, {} "
        "response tokens were there{}",
        report.conversations, report.response_tokens, report.seconds, rate,
        report.resumed_conversations, report.resumed_response_tokens,
        report.complete ? "" : "; not finished: run the same command to go on");
    if (report.saturated > 0) {
      note("note: {} features lie beyond the half floats and were stored as 65504",
           report.saturated);
    }
    if (!json_) return;
    write_json({{"conversations", report.conversations},
                {"prompt_tokens", report.prompt_tokens},
                {"copied_prompt_tokens", report.copied_tokens},
                {"response_tokens", report.response_tokens},
                {"seconds", report.seconds},
                {"response_tok_s", rate},
                {"resumed_conversations", report.resumed_conversations},
                {"resumed_response_tokens", report.resumed_response_tokens},
                {"saturated", report.saturated},
                {"complete", report.complete}});
  }

  ModelOptions model_;
  PlanOptions plan_;
  GenerateOptions options_;
  std::vector<std::string> prompts_, responses_, held_out_;
  std::string folder_;
  std::string mix_ = TemperatureMix(PlanOptions{}.temperatures).text();
  std::string shard_ = "0/1";
  std::uint64_t tokens_ = 0;
  std::string features_{name_of(FeatureType::f16)};
  double guidance_ = 1;
  bool chat_ = true;
  bool json_ = false;
  std::map<std::pair<std::string, std::string>, int> sources_;  // source, licence: prompts
};

}  // namespace

std::unique_ptr<Command> make_train_data(CLI::App& parent) {
  return std::make_unique<TrainData>(parent);
}

}  // namespace talon
